// SPDX-License-Identifier: Apache-2.0
// A strategy decides which configs to try. Ask and tell, with many in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner/space/space.h"
#include "tuner/trial.h"

namespace tune {

// Not thread-safe. Never proposes the same index twice, nor one it was told about before.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // The next config to try, or nothing when it has no more.
  virtual std::optional<uint64_t> Ask() = 0;
  // How a config fared, asked for or known from before. `latency_ns` is meaningful for kOk only.
  virtual void Tell(uint64_t index, Outcome outcome, double latency_ns) = 0;
};

// The strategies there are, for help texts and errors.
std::vector<std::string> StrategyNames();

// INVALID_ARGUMENT names the strategies there are. `space` must outlive the strategy. `first` is
// tried before any other (the default config), if set.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(const std::string& name, const Space& space,
                                                       uint64_t seed,
                                                       std::optional<uint64_t> first);

}  // namespace tune
