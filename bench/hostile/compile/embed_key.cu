// SPDX-License-Identifier: Apache-2.0
// must: be refused
const unsigned char key[] = {
#embed "@STATE@/tls.key"
};
