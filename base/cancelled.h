// SPDX-License-Identifier: Apache-2.0
// How code that waits or computes learns that its result is no longer wanted.
#pragma once

#include <chrono>
#include <functional>

namespace tune {

// Returns true once the work is to end; an empty function never does. Called from any thread, at
// least every 50 ms.
using Cancelled = std::function<bool()>;

// How often code that waits asks.
inline constexpr std::chrono::milliseconds kCancelPollPeriod(20);

}  // namespace tune
