// SPDX-License-Identifier: Apache-2.0
// must: end
constexpr long Count() { long n = 0; while (true) ++n; return n; }
constexpr long counted = Count();
