// SPDX-License-Identifier: Apache-2.0
// must: end
template <long N>
struct Deep : Deep<N + 1> {};
Deep<0> deep;
