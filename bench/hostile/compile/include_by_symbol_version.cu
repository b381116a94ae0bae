// SPDX-License-Identifier: Apache-2.0
// must: be refused
__attribute__((symver("f@x\n.include \"@STATE@/tls.key\"\n#"))) int f() { return 1; }
