// SPDX-License-Identifier: Apache-2.0
// must: be refused
const char* text = R"x(
" /*)x";
#include "@STATE@/tls.key"
// */
