// SPDX-License-Identifier: Apache-2.0
// What a snapshot says of a kernel: its problems, which of its configs are valid, its default. The
// Python package has the same rules (client/python/src/tunectl/_kernel.py).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lookup/index.h"
#include "tuner/config.h"
#include "tuner/problem.h"
#include "tuner/transfer/launch_sizes.h"

namespace tune::library {

// What a launch may ask of the devices of a target.
struct Target {
  std::string name;  // "sm_90a", "cpu"
  bool is_host = false;
  int64_t sm = 0;
  int64_t sm_count = 1;
  int64_t max_threads_per_block = 1024;
  int64_t max_shared_bytes = 49152;
};

// Texts are expressions, as in a kernel's spec.
struct KernelRules {
  struct Dim {
    std::string name;
    lookup::DimMatch match = lookup::DimMatch::kNearest;
    int64_t default_value = 0;
    std::vector<std::pair<std::string, int64_t>> on;  // defaults by patterns of targets
    int64_t min = 0;
    int64_t max = 0;
    std::vector<int64_t> values;  // empty: all from min to max
  };
  struct Choice {
    std::string target;  // a pattern; the first that fits counts
    std::string values;
    std::string default_value;
  };
  struct Param {
    std::string name;
    std::vector<Choice> choices;
  };
  struct Step {
    std::string when;  // empty: always
    std::vector<std::string> grid;
    std::vector<std::string> block;
    std::vector<std::string> cluster;
    std::string shared_bytes;
  };

  std::string name;
  std::string hash;
  std::string include_digest;  // of the headers in its include roots; empty: none, or not known
  bool on_host = false;
  std::vector<std::string> targets;  // patterns; empty: all
  std::vector<std::string> dtypes;
  std::vector<Dim> dims;
  std::vector<Param> params;
  std::vector<std::pair<std::string, std::string>> lets;
  std::vector<std::string> constraints;
  std::vector<Step> steps;

  lookup::KernelPolicy Policy() const;
  // A sentence about a target that the kernel does not run on; empty: it does.
  std::string WhyNotOn(const Target& target) const;
  // What is not given takes the defaults. INVALID_ARGUMENT names the dims there are, the bounds.
  absl::StatusOr<Problem> MakeProblem(const std::map<std::string, int64_t>& given,
                                      const std::string& dtype, const Target& target) const;
  LaunchSizes Launches(const Problem& problem, const Target& target) const;
};

// The configs of a kernel for a problem on a target. Not thread-safe; refers to the kernel.
class ConfigRules {
 public:
  ConfigRules(const KernelRules& kernel, const Problem& problem, const Target& target);
  ~ConfigRules();

  // Is it one of the space?
  bool IsValid(const Config& config) const;

  struct Safe {
    std::optional<Config> config;  // nothing: none was found
    std::string what;              // what it is, or why there is none
  };
  // The default, or some valid config where that is not valid.
  Safe SafeConfig() const;

 private:
  struct Space;
  struct Seeker;
  absl::Status Build();

  const KernelRules& kernel_;
  const Problem& problem_;
  const Target& target_;
  std::unique_ptr<Space> space_;
  absl::Status status_;  // why the spec cannot be read here
};

}  // namespace tune::library
