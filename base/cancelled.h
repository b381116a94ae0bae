// SPDX-License-Identifier: Apache-2.0
// How whoever waits or computes learns that nobody wants the result any more.
#pragma once

#include <functional>

namespace tune {

// True once the work is to end. Empty: it never is. Asked from any thread, at least every 50 ms.
using Cancelled = std::function<bool()>;

}  // namespace tune
