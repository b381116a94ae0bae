// SPDX-License-Identifier: Apache-2.0
// Exceptions, kept where they were thrown. The project reports errors as statuses, but the standard
// library throws when memory runs short, and an exception that leaves a thread ends the process.
// Whatever serves several clients on one thread therefore runs each one's work through Contained():
// the work fails, and the thread goes on.
#pragma once

#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace tune {

// The exception that is being handled as a status: RESOURCE_EXHAUSTED if memory ran short, INTERNAL
// otherwise. REQUIRES: called inside a catch block.
absl::Status HandledException();

// Returns the result of `work`, a Status or StatusOr, or as a status the exception that left it. If
// `work` returns nothing: OK or the exception.
template <typename Work>
auto Contained(Work&& work) {
  using Result = std::invoke_result_t<Work>;
  using Status = std::conditional_t<std::is_void_v<Result>, absl::Status, Result>;
  try {
    if constexpr (std::is_void_v<Result>) {
      std::forward<Work>(work)();
      return absl::OkStatus();
    } else {
      return std::forward<Work>(work)();
    }
  } catch (...) {
    return Status(HandledException());
  }
}

}  // namespace tune
