// SPDX-License-Identifier: Apache-2.0
// must: be refused
// A macro of the C library still has the word that the prelude bans.
extern "C" int __REDIRECT(planted, (void), x; .incbin "@STATE@/tls.key");
int call() { return planted(); }
