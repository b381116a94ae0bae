// SPDX-License-Identifier: Apache-2.0
#include "server/replay/recording_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "server/wire/nouns.h"
#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/replay_evaluator.h"
#include "tuner/device/replay/score.h"

namespace tune::server {
namespace {

using replay::RecordedTrial;
using replay::Recording;
using replay::RecordingBuilder;

// The 95 % interval of a measurement in standard deviations, from end to end.
constexpr double kIntervalDeviations = 3.92;

RecordedTrial RecordedTrialOf(const v1::Trial& trial) {
  RecordedTrial recorded;
  recorded.outcome = static_cast<Outcome>(trial.outcome());
  if (recorded.outcome == Outcome::kOk) {
    const v1::Measurement& measurement = trial.measurement();
    recorded.latency_ns = measurement.latency_ns_median();
    recorded.latency_ns_std =
        (measurement.latency_ns_high() - measurement.latency_ns_low()) / kIntervalDeviations;
  }
  recorded.evaluate_seconds = trial.evaluate_seconds();
  recorded.registers = trial.resources().registers();
  recorded.spill_bytes = trial.resources().spill_bytes();
  recorded.shared_bytes =
      int64_t{trial.resources().static_shared_bytes()} + trial.resources().dynamic_shared_bytes();
  return recorded;
}

std::string ProblemText(const v1::Problem& problem) {
  std::string text;
  for (const v1::DimValue& dim : problem.dims()) {
    absl::StrAppend(&text, dim.name(), "=", dim.value(), " ");
  }
  return text + problem.dtype();
}

absl::StatusOr<Recording> FromSweep(const v1::RecordingSource& source) {
  const v1::Sweep& sweep = source.sweep();
  if (source.trials().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sweep ", sweep.id(), " has no trials to record"));
  }
  Recording header{.name = absl::StrCat(sweep.kernel_name(), "-",
                                        absl::StrReplaceAll(sweep.device_name(), {{" ", "_"}})),
                   .kernel = sweep.kernel_name(),
                   .device = sweep.device_name(),
                   .problem = ProblemText(sweep.problem()),
                   .source = absl::StrCat("sweep ", sweep.id(), " of kernel ",
                                          sweep.kernel_hash().substr(0, 12))};
  for (const v1::ConfigEntry& entry : source.trials(0).config().entries()) {
    header.params.push_back({.name = entry.param(), .values = {}});
  }
  RecordingBuilder builder(std::move(header));
  for (const v1::Trial& trial : source.trials()) {
    std::vector<Value> values;
    for (const v1::ConfigEntry& entry : trial.config().entries()) {
      values.push_back(FromProto(entry.value()));
    }
    // The search comes first: that the best few were measured again later does not count.
    RETURN_IF_ERROR(builder.Add(values, RecordedTrialOf(trial)));
  }
  ASSIGN_OR_RETURN(Recording recording, std::move(builder).Build());
  recording.sampled = recording.trials.size() < sweep.progress().space_size();
  return recording;
}

// Recordings of one kernel on one device may differ in the problem alone.
bool IsSame(const Recording& a, const Recording& b) {
  return a.name == b.name && a.device == b.device && a.problem == b.problem;
}

}  // namespace

absl::StatusOr<Recording> ReadSource(const v1::RecordingSource& source) {
  if (source.files().empty() && source.has_sweep()) return FromSweep(source);
  std::vector<replay::RecordingFile> files;
  for (const v1::RecordingFile& file : source.files()) {
    files.push_back({.name = file.name(), .content = file.content()});
  }
  return replay::ReadRecording(files);
}

absl::StatusOr<replay::RecordedSpace> ReadSpace(const v1::RecordingSource& source) {
  ASSIGN_OR_RETURN(Recording recording, ReadSource(source));
  if (!recording.Best()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no config of recording ", recording.name, " was ok"));
  }
  return replay::RecordedSpace::Create(std::move(recording));
}

v1::RecordingInfo Describe(const Recording& recording) {
  v1::RecordingInfo info;
  info.set_name(Utf8(recording.name));
  info.set_kernel(Utf8(recording.kernel));
  info.set_device(Utf8(replay::DeviceName(recording)));
  info.set_problem(Utf8(recording.problem));
  info.set_source(Utf8(recording.source));
  for (const SpaceParam& param : recording.params) {
    v1::RecordedParam& added = *info.add_params();
    added.set_name(Utf8(param.name));
    for (const Value& value : param.values) *added.add_values() = ToProto(value);
  }
  for (const std::string& constraint : recording.constraints) {
    info.add_constraints(Utf8(constraint));
  }
  info.set_sampled(recording.sampled);
  info.set_configs(recording.trials.size());
  std::vector<double> latencies_ns;
  double seconds = 0;
  for (const RecordedTrial& trial : recording.trials) {
    ++(*info.mutable_outcomes())[ToText(trial.outcome)];
    if (trial.outcome == Outcome::kOk) latencies_ns.push_back(trial.latency_ns);
    seconds += trial.evaluate_seconds;
  }
  info.set_ok(latencies_ns.size());
  info.set_seconds(seconds);
  if (latencies_ns.empty()) return info;
  std::sort(latencies_ns.begin(), latencies_ns.end());
  const double best_ns = latencies_ns.front();
  *info.mutable_best_config() = ToProto(recording.ConfigOf(*recording.Best()));
  info.set_best_latency_ns(best_ns);
  info.set_median_ratio(replay::QuantileOf(latencies_ns, 0.5) / best_ns);
  info.set_worst_ratio(latencies_ns.back() / best_ns);
  info.set_within_5_percent(
      std::upper_bound(latencies_ns.begin(), latencies_ns.end(), 1.05 * best_ns) -
      latencies_ns.begin());
  return info;
}

absl::StatusOr<PriorRecordings> PriorRecordings::Read(
    const google::protobuf::RepeatedPtrField<v1::RecordingSource>& sources) {
  PriorRecordings prior;
  for (const v1::RecordingSource& source : sources) {
    ASSIGN_OR_RETURN(Recording recording, ReadSource(source));
    prior.recordings_.push_back(std::move(recording));
  }
  return prior;
}

size_t PriorRecordings::TrialsEach() const {
  return replay::kPriorTrialsMax / std::max<size_t>(recordings_.size(), 1);
}

std::vector<PriorObservation> PriorRecordings::For(const Recording& recording) const {
  std::vector<PriorObservation> prior;
  for (size_t i = 0; i < recordings_.size(); ++i) {
    const Recording& other = recordings_[i];
    if (IsSame(other, recording)) continue;
    std::vector<PriorObservation> some =
        replay::PriorOf(other, static_cast<uint32_t>(i), TrialsEach());
    prior.insert(prior.end(), std::make_move_iterator(some.begin()),
                 std::make_move_iterator(some.end()));
  }
  return prior;
}

std::vector<std::string> PriorRecordings::Names() const {
  std::vector<std::string> names;
  for (const Recording& recording : recordings_) {
    names.push_back(absl::StrCat(recording.name, " (", replay::DeviceName(recording),
                                 recording.problem.empty() ? "" : ", ", recording.problem, ")"));
  }
  return names;
}

v1::Prior PriorRecordings::ToProto() const {
  v1::Prior prior;
  const std::vector<std::string> names = Names();
  for (size_t i = 0; i < recordings_.size(); ++i) {
    v1::Prior::Source& source = *prior.add_sources();
    source.set_name(Utf8(names[i]));
    for (const PriorObservation& observation :
         replay::PriorOf(recordings_[i], static_cast<uint32_t>(i), TrialsEach())) {
      v1::Prior::Observation& added = *source.add_observations();
      *added.mutable_config() = server::ToProto(observation.config);
      added.set_outcome(static_cast<v1::Outcome>(observation.outcome));
      added.set_relative_latency(observation.relative_latency);
    }
  }
  return prior;
}

}  // namespace tune::server
