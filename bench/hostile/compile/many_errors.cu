// SPDX-License-Identifier: Apache-2.0
// must: end
#define A nowhere;
#define B A A A A A A A A A A
#define C B B B B B B B B B B
#define D C C C C C C C C C C
#define E D D D D D D D D D D
#define F E E E E E E E E E E
#define G F F F F F F F F F F
void errors() { G }
