// SPDX-License-Identifier: Apache-2.0
// Which config of a kernel is gated: the one that jobs run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/gate/gate_job.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct ConfigChoice {
  Config base;
  Config head;
  std::string source;  // "record 12 of the base", "default"
  // The head's own best where that is another config.
  std::optional<Config> recovery;
};

// The best record of the base for this problem and device, so far as both revisions can run it;
// else the default config. In a recording, the head's.
absl::StatusOr<ConfigChoice> ChooseConfigs(const GateSubject& subject,
                                           const std::vector<db::RecordRow>& records,
                                           const db::GateRunRow& run, const TargetTraits& traits);

}  // namespace tune::server
