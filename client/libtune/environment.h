// SPDX-License-Identifier: Apache-2.0
// The environment of the process as it was at one moment. What goes on beside a job reads this one:
// the job may set variables meanwhile, and getenv must not be called then.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tune::library {

// Immutable. Thread-safe.
class Environment {
 public:
  // REQUIRES: a thread of the job's calls, while no other sets variables.
  static std::shared_ptr<const Environment> Copy();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  // Empty where it is not set.
  std::string Variable(absl::string_view name) const;
  // The address of the host's daemon, or TUNE_ADDRESS.
  const std::string& default_address() const { return default_address_; }
  // The path of a program, found as a shell finds it; empty if there is none.
  std::string PathOf(const std::string& program) const;
  // "NAME=value" of each variable.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  Environment();

  std::vector<std::string> lines_;
  const std::string default_address_;
};

}  // namespace tune::library
