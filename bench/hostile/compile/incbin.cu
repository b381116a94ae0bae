// SPDX-License-Identifier: Apache-2.0
// must: be refused
asm(".section .rodata\n.incbin \"@STATE@/tls.key\"\n");
