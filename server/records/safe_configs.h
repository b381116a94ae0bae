// SPDX-License-Identifier: Apache-2.0
// The config that a look-up answers with if no record fits: the spec's default, or some valid
// config if the default is not valid. Each is searched for once.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "base/mutex.h"
#include "server/kernels/space_solver.h"
#include "server/rpc/executor.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

// Thread-safe.
class SafeConfigs {
 public:
  // The solver must outlive this.
  explicit SafeConfigs(SpaceSolver& solver) : solver_(solver) {}
  ~SafeConfigs() { Stop(); }

  struct Wanted {
    std::shared_ptr<const Kernel> kernel;
    Problem problem;
    TargetTraits traits;
  };

  struct Safe {
    Config config;
    // The kind of config, in the words of libtune and the Python package: "the kernel's default".
    std::string what;
  };

  // Returns a config found before, without waiting.
  std::optional<absl::StatusOr<Safe>> Known(const Wanted& wanted) const;
  // Waits for the search, which goes on after the caller gave up, so that the next call finds the
  // result. INVALID_ARGUMENT: no config is valid.
  absl::StatusOr<Safe> Find(const Wanted& wanted, const Cancelled& cancelled);

  // Ends searches with CANCELLED. Idempotent.
  void Stop() { executor_.Stop(); }

 private:
  absl::StatusOr<Safe> Seek(const Wanted& wanted);

  SpaceSolver& solver_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  // By what is wanted; nullopt while the search runs.
  std::map<std::string, std::optional<absl::StatusOr<Safe>>> found_ ABSL_GUARDED_BY(mutex_);
  Executor executor_{/*threads_max=*/4, /*queue_max=*/256};
};

}  // namespace tune::server
