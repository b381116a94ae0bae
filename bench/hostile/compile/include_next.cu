// SPDX-License-Identifier: Apache-2.0
// must: be refused
#include_next "@STATE@/tls.key"
