// SPDX-License-Identifier: Apache-2.0
// How the blocks of a launch fill a GPU: how many of them a multiprocessor holds at a time, and
// what it costs that they come in waves. docs/lookup.md has the formulas.
#pragma once

#include <cstdint>

namespace tune {

// The resources of a multiprocessor that a block takes. 0: not known, or none.
struct BlockNeeds {
  int64_t threads = 0;
  int64_t registers = 0;     // of a thread
  int64_t shared_bytes = 0;  // static and dynamic
};

// How many such blocks a multiprocessor holds at a time, at least 1. `sm` is 90 of sm_90a,
// `max_shared_bytes` what a block of that target may have.
int64_t ResidentBlocks(int sm, int64_t max_shared_bytes, const BlockNeeds& needs);

// How long a launch takes, over what it would take if its work were spread evenly and without
// waves; the same launch with a whole number of full waves has the least. 1 where one of the three
// is 0: not known.
double Stretch(int64_t blocks, int64_t residents, int64_t multiprocessors);

}  // namespace tune
