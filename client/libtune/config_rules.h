// SPDX-License-Identifier: Apache-2.0
// A kernel as a snapshot describes it, and which of its configs are valid for a problem.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lookup/index.h"
#include "tuner/config.h"
#include "tuner/kernel/kernel.h"
#include "tuner/problem.h"

namespace tune::library {

struct SnapshotKernel {
  KernelSpec spec;  // as Kernel::CreateRules takes it
  std::string hash;
  std::string include_digest;  // of the headers in its include roots; empty: none, or not known
  std::string json;            // the object of the file
  bool on_host = false;
  // An error if an expression of the spec cannot be read here: a later version wrote it.
  absl::StatusOr<std::shared_ptr<const Kernel>> rules = std::shared_ptr<const Kernel>();

  lookup::KernelPolicy Policy() const;
  // A sentence about a target that the kernel does not run on; empty if it does.
  std::string WhyNotOn(const std::string& target) const;
  // The value of an expression of the spec over a problem, which need not be one of the kernel's,
  // and the lets that it suffices for. INVALID_ARGUMENT: it cannot be evaluated.
  absl::StatusOr<Value> Evaluate(const std::string& expression,
                                 const std::map<std::string, int64_t>& dims,
                                 const std::string& dtype, const TargetTraits& target) const;
  // The launches of a valid config, in the order they run. Empty if only the compiler knows.
  std::vector<LaunchPlan> Launches(const Problem& problem, const TargetTraits& target,
                                   const Config& config) const;
};

// The configs of a kernel for a problem on a target. Not thread-safe.
class ConfigRules {
 public:
  ConfigRules(const SnapshotKernel& kernel, const Problem& problem, const TargetTraits& target);

  // Is it one of the space?
  bool IsValid(const Config& config) const;

  struct Safe {
    std::optional<Config> config;  // nullopt if none was found
    std::string what;              // which config it is, or why there is none
  };
  // The default, or the first valid config that is found if the default is not valid.
  Safe SafeConfig() const;

 private:
  absl::Status Define(const SnapshotKernel& kernel, const Problem& problem,
                      const TargetTraits& target);

  std::string kernel_name_;
  SpaceDefinition space_;
  Config default_;
  size_t constraints_of_spec_ = 0;  // those of the space that come first; others are of launches
  absl::Status status_;             // not OK if the spec cannot be read here
};

}  // namespace tune::library
