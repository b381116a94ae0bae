// SPDX-License-Identifier: Apache-2.0
// Findings of `kernel check`. A mistake that occurs for several targets and configs is reported
// once, with their number.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tune/v1/catalogue.pb.h"

namespace tune::server {

// Thread-safe.
class CheckFindings {
 public:
  // Adds a finding at a place: "softmax.textproto:12:9", a target, or empty if the message itself
  // begins with a place.
  void AddAt(const std::string& where, const std::string& message,
             v1::CheckSeverity severity = v1::CHECK_SEVERITY_ERROR);
  // Adds the compiler's message about a variant ("reference", or a config) for a target; without a
  // variant, a mistake of the kernel on the target.
  void AddCompile(const std::string& target, const std::string& variant,
                  const std::string& message);

  uint64_t errors() const;
  // In the order in which they were first found; at most 100.
  void Write(v1::CheckKernelResponse& response) const;

 private:
  struct Finding {
    std::string key;
    std::string where;  // empty: made of targets and variants
    std::string message;
    v1::CheckSeverity severity;
    std::vector<std::string> targets;
    std::set<std::string> compilers;  // whose words the message has
    std::string first_variant;
    std::string first_config;
    uint64_t variants = 0;  // of the target with the most
    uint64_t variants_of_target = 0;
  };

  Finding* Find(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::string WhereOf(const Finding& finding);
  static std::string MessageOf(const Finding& finding);

  mutable Mutex mutex_;
  std::vector<Finding> findings_ ABSL_GUARDED_BY(mutex_);
  uint64_t errors_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tune::server
