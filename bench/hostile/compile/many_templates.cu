// SPDX-License-Identifier: Apache-2.0
// must: end
template <int N, int M>
struct Grow {
  static constexpr long value = Grow<N - 1, 2 * M>::value + Grow<N - 1, 2 * M + 1>::value;
};
template <int M>
struct Grow<0, M> { static constexpr long value = M; };
long grown = Grow<25, 1>::value;
