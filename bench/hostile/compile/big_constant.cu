// SPDX-License-Identifier: Apache-2.0
// must: end
struct Table {
  long value[1 << 24];
  constexpr Table() : value() { for (long i = 0; i < (1 << 18); ++i) value[i] = i; }
};
__attribute__((used)) constexpr Table table;
