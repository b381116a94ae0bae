// SPDX-License-Identifier: Apache-2.0
// must: be refused
#pragma GCC pch_preprocess "@STATE@/tls.key"
