// SPDX-License-Identifier: Apache-2.0
// Bounds the memory that a piece of work allocates. A definition that a client sends becomes syntax
// trees, terms, plans, tables and messages, whose sizes depend on each other in ways that no rule
// about the definition foresees. So the work itself is counted: the operators `new` and `delete` of
// the program add up what the thread holds, and a `new` beyond the limit throws std::bad_alloc,
// which ends the work with an error.
//
// Memory from malloc alone is not counted, and neither is what other threads allocate.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tune::server {

// Runs `work` on this thread. RESOURCE_EXHAUSTED, without advice, if it would hold more than
// `bytes_max`; its memory is then freed. An exception that ends `work` must leave nothing half
// changed. In a nested call the outer limit holds for both.
absl::Status RunWithin(size_t bytes_max, absl::FunctionRef<absl::Status()> work);

// Returns freed memory to the system.
void ReturnFreedMemory();

}  // namespace tune::server
