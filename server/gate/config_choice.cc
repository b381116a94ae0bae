// SPDX-License-Identifier: Apache-2.0
#include "server/gate/config_choice.h"

#include "base/status_macros.h"

namespace tune::server {
namespace {

bool CanRun(const GateSide& side, const TargetTraits& traits, const Config& config) {
  return side.kernel().CheckConfig(side.problem, traits, config).ok();
}

// The newest record of a kernel by hash, or of any source of that name if one is given.
const lookup::Record* FindRecord(const std::vector<lookup::Record>& records, const GateSide& side,
                                 const db::GateRunRow& run, const std::string& any_source_of) {
  const lookup::Record* found = nullptr;
  for (const lookup::Record& record : records) {
    const bool kernel = any_source_of.empty() ? record.key.kernel_hash == side.kernel().hash()
                                              : record.kernel_name == any_source_of;
    if (kernel && record.key.problem == side.problem && record.key.device_name == run.device_name &&
        record.key.cache_mode == run.cache_mode) {
      found = &record;
    }
  }
  return found;
}

}  // namespace

absl::StatusOr<ConfigChoice> ChooseConfigs(const GateSubject& subject,
                                           const std::string& kernel_name,
                                           const std::vector<lookup::Record>& records,
                                           const db::GateRunRow& run, const TargetTraits& traits) {
  const GateSide& first = subject.base ? *subject.base : subject.head;
  ConfigChoice choice;
  for (const bool any_source : {false, true}) {
    const lookup::Record* record = FindRecord(records, first, run, any_source ? kernel_name : "");
    if (record == nullptr || !CanRun(first, traits, record->trial.config)) continue;
    choice.base = record->trial.config;
    choice.source = any_source ? db::GateConfigSource::kOtherRecord : db::GateConfigSource::kRecord;
    choice.record_id = record->id;
    break;
  }
  if (choice.record_id == 0) {
    ASSIGN_OR_RETURN(choice.base, first.kernel().DefaultConfig(first.problem, traits));
    choice.source = db::GateConfigSource::kDefault;
  }
  choice.head = choice.base;
  if (!subject.base) return choice;
  if (!CanRun(subject.head, traits, choice.head)) {
    ASSIGN_OR_RETURN(choice.head,
                     subject.head.kernel().DefaultConfig(subject.head.problem, traits));
    choice.head_default = true;
  }
  const lookup::Record* own = FindRecord(records, subject.head, run, /*any_source_of=*/"");
  if (own != nullptr && own->trial.config != choice.head &&
      CanRun(subject.head, traits, own->trial.config)) {
    choice.recovery = own->trial.config;
  }
  return choice;
}

}  // namespace tune::server
