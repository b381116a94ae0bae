// SPDX-License-Identifier: Apache-2.0
// The rows of a gate run: with its legs (db/leg.h) enough to compute every verdict again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/job.h"
#include "tuner/config.h"
#include "tuner/gate/gate.h"
#include "tuner/gate/rules.h"
#include "tuner/problem.h"
#include "tuner/trial.h"

namespace tune::db {

// Values are stored and sent: do not renumber.
enum class GateKind { kGate = 1, kHistory = 2, kStudy = 3 };

// The origin of the config that is gated. Values are stored and sent: do not renumber.
enum class GateConfigSource {
  kNone = 0,         // there is none: the kernel cannot be planned
  kDefault = 1,      // the spec's default
  kRecord = 2,       // the record of the base; for the history, of the head
  kOtherRecord = 3,  // a record of another source of the kernel
};

struct GateRunRow {
  int64_t id = 0;
  JobRow job;  // its state, its device, its times
  GateKind kind = GateKind::kGate;
  std::string device_name;
  std::string device_uuid;
  std::string target;
  std::string driver;
  std::string compiler;  // the versions, of each language that was gated
  CacheMode cache_mode = CacheMode::kCold;
  std::string base_label;
  std::string head_label;
  gate::Rules rules;
  uint64_t seed = 0;
};
TUNE_FIELDS(GateRunRow, id, job, kind, device_name, device_uuid, target, driver, compiler,
            cache_mode, base_label, head_label, rules, seed);

struct GateKernelRow {
  int64_t id = 0;
  int64_t run_id = 0;
  std::string name;
  std::string base_kernel_hash;  // empty for the history
  std::string head_kernel_hash;
  Problem problem;
  Config base_config;
  Config head_config;
  GateConfigSource config_source = GateConfigSource::kNone;
  int64_t config_record_id = 0;  // of the record, if it is from one
  bool head_default = false;     // the head cannot run it: its own default stands in
  Config recovery_config;        // empty: none
  double tolerance = -1;         // negative: the run's
  std::string base_code;         // SHA-256 of the machine code
  std::string head_code;
  bool identical = false;
  std::string fault;
};
TUNE_FIELDS(GateKernelRow, id, run_id, name, base_kernel_hash, head_kernel_hash, problem,
            base_config, head_config, config_source, config_record_id, head_default,
            recovery_config, tolerance, base_code, head_code, identical, fault);

struct GateVerdictRow {
  int64_t gate_kernel_id = 0;
  gate::Judgement judgement;
};
TUNE_FIELDS(GateVerdictRow, gate_kernel_id, judgement);

struct BaselineRow {
  std::string name;
  std::string kernel_name;
  std::string kernel_hash;
  std::string label;
  int64_t set_unix_ms = 0;
};
TUNE_FIELDS(BaselineRow, name, kernel_name, kernel_hash, label, set_unix_ms);

}  // namespace tune::db
