// SPDX-License-Identifier: Apache-2.0
// must: end
#define A(x) x, x
#define B(x) A(A(A(A(x))))
#define C(x) B(B(B(B(x))))
#define D(x) C(C(x))
int doubled[] = {D(1)};
