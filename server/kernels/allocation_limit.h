// SPDX-License-Identifier: Apache-2.0
// Bounds what a piece of work allocates, whatever it allocates it for. A definition that a client
// sends becomes syntax trees, terms, plans, tables and messages, whose sizes depend on each other
// in ways that no rule about the definition foresees. So the work itself is counted: the operators
// `new` and `delete` of the program add up what the thread holds, and a `new` beyond the limit
// throws std::bad_alloc, which ends the work with an error.
//
// Memory from malloc alone is not counted, and neither is what other threads allocate.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tune::server {

// Runs `work` on this thread. RESOURCE_EXHAUSTED, without a word on what to do about it, if it
// would hold more than `bytes_max`; what it held by then is freed. `work` must leave nothing
// behind that is only half changed when an exception ends it. Within another one, the outer limit
// holds for both.
absl::Status RunWithin(size_t bytes_max, absl::FunctionRef<absl::Status()> work);

// Gives memory that was freed back to the system, as others may need it.
void ReturnFreedMemory();

}  // namespace tune::server
