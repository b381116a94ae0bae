// SPDX-License-Identifier: Apache-2.0
// must: be refused
#define ASK(x) __has_include(x)
#if ASK("@STATE@/tls.key")
int there;
#endif
