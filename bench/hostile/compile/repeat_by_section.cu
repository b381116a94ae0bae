// SPDX-License-Identifier: Apache-2.0
// must: be refused
__attribute__((section("x\n.rept 100000000\n.quad 1\n.endr\n#"))) int planted = 1;
