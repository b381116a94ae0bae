// SPDX-License-Identifier: Apache-2.0
// must: be refused
_Pragma("GCC dependency \"@STATE@/tls.key\"")
