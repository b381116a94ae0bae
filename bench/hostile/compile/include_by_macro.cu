// SPDX-License-Identifier: Apache-2.0
// must: be refused
#define KEY "@STATE@/tls.key"
#include KEY
