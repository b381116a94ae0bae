// SPDX-License-Identifier: Apache-2.0
// must: be refused
#pragma GCC dependency "@STATE@/tls.key"
