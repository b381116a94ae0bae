// SPDX-License-Identifier: Apache-2.0
// must: be refused
__attribute__((section("x\n\x2e\x69nclude \"@STATE@/tls.key\"\n#"))) int planted = 1;
