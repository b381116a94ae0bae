// SPDX-License-Identifier: Apache-2.0
// must: be refused
# 1 "@STATE@/tls.key" 1
int broken = ;
