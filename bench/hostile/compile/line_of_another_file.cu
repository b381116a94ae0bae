// SPDX-License-Identifier: Apache-2.0
// must: be refused
#line 1 "@STATE@/tls.key"
int broken = ;
