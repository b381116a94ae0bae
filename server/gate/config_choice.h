// SPDX-License-Identifier: Apache-2.0
// Which config of a kernel is gated: the one that jobs run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/gate.h"
#include "lookup/record.h"
#include "server/gate/gate_plan.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct ConfigChoice {
  Config base;
  Config head;
  db::GateConfigSource source = db::GateConfigSource::kNone;
  int64_t record_id = 0;      // of the record, if it is from one
  bool head_default = false;  // the head cannot run it: its own default stands in
  // The head's own best where that is another config.
  std::optional<Config> recovery;
};

// The best record of the base for this problem and device, so far as both revisions can run it;
// else the default config. For the history, the head's. `kernel_name` is with its name space.
absl::StatusOr<ConfigChoice> ChooseConfigs(const GateSubject& subject,
                                           const std::string& kernel_name,
                                           const std::vector<lookup::Record>& records,
                                           const db::GateRunRow& run, const TargetTraits& traits);

}  // namespace tune::server
