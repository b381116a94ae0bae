// SPDX-License-Identifier: Apache-2.0
// must: end by itself
// An object file of 240 MiB of one line.
__attribute__((used)) char filled[240 << 20] = {1};
