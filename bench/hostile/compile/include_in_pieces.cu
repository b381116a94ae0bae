// SPDX-License-Identifier: Apache-2.0
// must: be refused
#inc\
lude "@STATE@/tls.key"
