// SPDX-License-Identifier: Apache-2.0
// must: end
constexpr long Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
constexpr long values[] = {Fib(30), Fib(31), Fib(32), Fib(33), Fib(34), Fib(35)};
