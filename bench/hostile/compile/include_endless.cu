// SPDX-License-Identifier: Apache-2.0
// must: be refused
#include "/dev/zero"
