// SPDX-License-Identifier: Apache-2.0
// must: end by itself
__attribute__((used, aligned(1 << 28))) char aligned_data[1 << 20] = {1};
