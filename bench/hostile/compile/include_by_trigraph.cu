// SPDX-License-Identifier: Apache-2.0
// must: be refused
#pragma GCC optimize ("trigraphs")
??=include "@STATE@/tls.key"
int planted = SECRET_VALUE;
