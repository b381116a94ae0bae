// SPDX-License-Identifier: Apache-2.0
// A clock of the system that a test can set. It replaces the C library's clock_gettime in the whole
// test program, and is right until a test sets it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tune {

// Seconds that are added to the time of day. A test that changes it runs in a process of its own,
// as ctest runs each file.
inline std::atomic<int64_t> g_clock_set_by_seconds{0};

}  // namespace tune
