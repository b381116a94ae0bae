// SPDX-License-Identifier: Apache-2.0
// The rows of a comparison: with its legs (db/leg.h) enough to compute all figures again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "db/job.h"
#include "tuner/config.h"
#include "tuner/plan.h"
#include "tuner/problem.h"
#include "tuner/roofline/roofline.h"
#include "tuner/trial.h"

namespace tune::db {

struct ComparisonRow {
  int64_t id = 0;
  JobRow job;  // its state, its device, its times
  std::string device_name;
  std::string device_uuid;
  std::string target;
  std::string driver;
  CacheMode cache_mode = CacheMode::kCold;
  uint64_t seed = 0;
  uint32_t rounds = 0;    // wanted
  std::string sweep_dim;  // empty: one problem
};
TUNE_FIELDS(ComparisonRow, id, job, device_name, device_uuid, target, driver, cache_mode, seed,
            rounds, sweep_dim);

// A kernel on one problem of a comparison.
struct ComparedRow {
  int64_t id = 0;
  int64_t comparison_id = 0;
  uint32_t place = 0;  // of the problem among the comparison's
  std::string label;
  std::string kernel_hash;
  std::string kernel_name;
  std::string language;  // "CUDA C++"
  Problem problem;
  Config config;
  std::string config_source;
  std::string compiler;
  WorkPlan work;  // of the comparison's first kernel
  Roof roof;
  Outcome outcome = Outcome::kOk;  // of planning and compiling
  std::string message;
  Outcome agreement = Outcome::kOk;  // of its outputs with the first kernel's reference
  std::string agreement_message;
  ResultError error;
  std::vector<std::string> notes;
};
TUNE_FIELDS(ComparedRow, id, comparison_id, place, label, kernel_hash, kernel_name, language,
            problem, config, config_source, compiler, work, roof, outcome, message, agreement,
            agreement_message, error, notes);

}  // namespace tune::db
