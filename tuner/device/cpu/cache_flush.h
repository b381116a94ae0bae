// SPDX-License-Identifier: Apache-2.0
// Makes memory cold.
#pragma once

#include <cstddef>

namespace tune::cpu {

// Writes back and drops every cache line of the range, in all caches of the host: the next access
// comes from memory. Its cost grows with the range, not with the caches.
void FlushFromCaches(const void* data, size_t bytes);

}  // namespace tune::cpu
