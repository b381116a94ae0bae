// SPDX-License-Identifier: Apache-2.0
// The ring of STAGES slots through which copies run ahead of the multiplications.
#pragma once

// A position in the ring. The phase is the parity of the rounds so far.
struct Cursor {
  int slot = 0;
  unsigned phase = 0;
  __device__ void Advance() {
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
};
