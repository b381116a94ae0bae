// SPDX-License-Identifier: Apache-2.0
// must: be refused
__attribute__((section("x\n.incb" "in \"@STATE@/tls.key\"\n#"))) int planted = 1;
