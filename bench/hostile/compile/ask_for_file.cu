// SPDX-License-Identifier: Apache-2.0
// must: be refused
#if __has_include("@STATE@/tls.key")
int there;
#endif
