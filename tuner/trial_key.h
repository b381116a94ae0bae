// SPDX-License-Identifier: Apache-2.0
// The identity that the trials of a sweep on a device share. Trials may be compared, and a record
// answers, if these fields match.
#pragma once

#include <string>

#include "base/fields.h"
#include "tuner/problem.h"
#include "tuner/trial.h"

namespace tune {

struct TrialKey {
  std::string kernel_hash;
  Problem problem;
  std::string device_name;
  std::string target;
  std::string driver;
  std::string compiler;
  CacheMode cache_mode = CacheMode::kCold;
  // Identifies the headers in the kernel's include roots (tuner/device/include_roots.h); empty: it
  // has none, or they are not known.
  std::string include_digest;
};
TUNE_FIELDS(TrialKey, kernel_hash, problem, device_name, target, driver, compiler, cache_mode,
            include_digest);

}  // namespace tune
