// SPDX-License-Identifier: Apache-2.0
#include "client/libtune/resolve.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/libtune/local_devices.h"
#include "lookup/place.h"
#include "tuner/device_profile.h"
#include "tuner/spelling.h"

namespace tune::library {
namespace {

// The device a question is about, by the rule of server/records/record_book.cc.
struct Place {
  std::string device;
  TargetTraits target;
  std::string note;
  std::string driver;    // empty: not known
  int64_t sm_count = 0;  // of this very device; 0: not known
};

bool IsFamily(const std::string& text) {
  const auto& all = DeviceProfiles();
  return std::any_of(all.begin(), all.end(), [&](const auto* one) { return one->family == text; });
}

// The target of a device's records; empty if it has none.
std::string TargetSeen(const std::string& device, const Snapshot& snapshot) {
  const auto seen = snapshot.devices().find(device);
  return seen == snapshot.devices().end() ? "" : seen->second.target;
}

Place PlaceOf(const std::string& given, const Snapshot& snapshot) {
  const std::string asked = DeviceIdOf(given);
  for (const LocalDevice& local : LocalDevices()) {
    const bool of_family =
        IsFamily(asked) && absl::string_view(local.id).substr(0, local.id.find(':')) == asked;
    if (!asked.empty() && asked != local.id && asked != local.name && !of_family) continue;
    return {.device = local.name,
            .target = snapshot.TargetNamed(local.target.empty() ? TargetSeen(local.name, snapshot)
                                                                : local.target),
            .driver = local.driver,
            .sm_count = local.sm_count};
  }
  const lookup::RecordedPlace recorded = lookup::PlaceByRecords(asked, snapshot.devices());
  return {recorded.device, snapshot.TargetNamed(recorded.target), recorded.note};
}

void TakeRecord(const Snapshot& snapshot, const lookup::Record& record, Answer& answer) {
  const lookup::Evidence& evidence = snapshot.EvidenceOf(record);
  answer.measured = record.trial.measurement;
  answer.record = record.id;
  answer.published_unix_ms = record.published_unix_ms;
  answer.confidence = evidence.confidence;
  answer.evidence = evidence.digest;
}

// Configs are valid by what all devices of a target have; a launch may fill this very device.
std::vector<LaunchPlan> LaunchesOf(const SnapshotKernel& kernel, const Place& place,
                                   const Problem& problem, const Config& config) {
  if (config.entries.empty()) return {};
  TargetTraits target = place.target;
  if (place.sm_count > 0) target.sm_count = place.sm_count;
  return kernel.Launches(problem, target, config);
}

void LookUp(const Snapshot& snapshot, const SnapshotKernel& kernel, const Place& place,
            const Problem& problem, Answer& answer) {
  const ConfigRules rules(kernel, problem, place.target);
  const lookup::Query query{.kernel_name = kernel.spec.name,
                            .problem = problem,
                            .device_name = place.device,
                            .target = place.target.target,
                            .driver = place.driver};
  const auto is_valid = [&](const lookup::Record& record) {
    return (record.key.kernel_hash == kernel.hash && record.key.problem == problem) ||
           rules.IsValid(record.trial.config);
  };
  lookup::Answer found = snapshot.IndexOf(kernel.spec.name).Lookup(query, is_valid);
  const auto accept = [&](const Config& config) { return rules.IsValid(config); };
  answer.expectation = lookup::AskGrids(SpeakingGrids(snapshot, kernel, query), query,
                                        kernel.Policy(), kernel.hash, accept, found);
  const std::string note = place.note.empty() ? "" : absl::StrCat("; ", place.note);
  answer.match = found.match;
  answer.reason = absl::StrCat(found.reason, note);
  if (found.record != nullptr) {
    TakeRecord(snapshot, *found.record, answer);
    answer.config = *found.config;
    // An artifact for another problem or config is of no use.
    const bool is_its_own =
        found.record->trial.config == answer.config && found.record->key.problem == problem;
    if (is_its_own) answer.artifact = found.record->artifact;
    return;
  }
  ConfigRules::Safe safe = rules.SafeConfig();
  if (safe.config.has_value()) answer.config = *std::move(safe.config);
  absl::StrAppend(&answer.reason, "; ", safe.what);
}

}  // namespace

const char* MatchName(lookup::Match match) {
  switch (match) {
    case lookup::Match::kExact:
      return "exact";
    case lookup::Match::kBucketed:
      return "bucketed";
    case lookup::Match::kNearest:
      return "nearest";
    case lookup::Match::kOtherDevice:
      return "other_device";
    case lookup::Match::kNone:
      break;
  }
  return "default";
}

absl::StatusOr<Answer> Resolve(const Snapshot& snapshot, const std::string& source,
                               const Question& question) {
  Answer answer{.kernel = question.kernel, .snapshot = snapshot.digest(), .source = source};
  const SnapshotKernel* kernel = snapshot.FindKernel(question.kernel);
  if (kernel == nullptr) {
    const std::string known = absl::StrJoin(snapshot.kernel_names(), ", ");
    answer.reason = absl::StrCat("the snapshot has no kernel '", question.kernel, "'; it has ",
                                 known.empty() ? "none" : known);
    return answer;
  }
  const Place place = PlaceOf(question.device, snapshot);
  answer.device = place.device;
  answer.target = place.target.target;
  answer.driver = place.driver;
  answer.reason = answer.target.empty() ? absl::StrCat("it is not known which GPU '", answer.device,
                                                       "' is: name the device, such as NVIDIA H200")
                                        : kernel->WhyNotOn(answer.target);
  if (!answer.reason.empty()) return answer;
  ASSIGN_OR_RETURN(const Problem problem,
                   MakeProblem(kernel->spec, question.dims, question.dtype, answer.target));
  answer.dims = problem.dims;
  answer.dtype = ToText(problem.dtype);
  LookUp(snapshot, *kernel, place, problem, answer);
  answer.launches = LaunchesOf(*kernel, place, problem, answer.config);
  return answer;
}

}  // namespace tune::library
