// SPDX-License-Identifier: Apache-2.0
// must: end by itself
// 240 MiB of one line of the assembler's.
__attribute__((section("x,\"a\"\n.fill 251658240,1,7\n#"))) int planted = 1;
