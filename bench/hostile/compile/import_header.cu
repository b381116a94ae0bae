// SPDX-License-Identifier: Apache-2.0
// must: be refused
#import "@STATE@/tls.key"
