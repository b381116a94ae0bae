// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/recording.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::replay {
namespace {

constexpr size_t kMaxParams = 64;      // as a space has
constexpr size_t kMaxValues = 65'535;  // a digit has 16 bits

// Files disagree on whether 16 is 16 or 16.0: equal numbers are one value.
std::string KeyOf(const Value& value) {
  if (const double* real = std::get_if<double>(&value)) {
    if (std::abs(*real) < 1e15 && *real == std::floor(*real)) {
      return absl::StrCat(static_cast<int64_t>(*real));
    }
  }
  return ToText(value);
}

std::optional<double> NumberOf(const Value& value) {
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const double* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

}  // namespace

Config Recording::ConfigOf(size_t trial) const {
  Config config;
  const absl::Span<const uint16_t> row = DigitsOf(trial);
  for (size_t i = 0; i < params.size(); ++i) {
    config.entries.emplace_back(params[i].name, params[i].values[row[i]]);
  }
  return config;
}

size_t Recording::CountOk() const {
  return std::count_if(trials.begin(), trials.end(),
                       [](const RecordedTrial& trial) { return trial.outcome == Outcome::kOk; });
}

std::optional<size_t> Recording::Best() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].outcome != Outcome::kOk) continue;
    if (!best || trials[i].latency_ns < trials[*best].latency_ns) best = i;
  }
  return best;
}

RecordingBuilder::RecordingBuilder(Recording header) : recording_(std::move(header)) {
  for (const SpaceParam& param : recording_.params) {
    values_given_.push_back(!param.values.empty());
    std::map<std::string, uint16_t>& digits = digits_.emplace_back();
    const size_t count = std::min(param.values.size(), kMaxValues);
    for (size_t i = 0; i < count; ++i) {
      digits.emplace(KeyOf(param.values[i]), static_cast<uint16_t>(i));
    }
  }
}

absl::Status RecordingBuilder::Add(const std::vector<Value>& values, const RecordedTrial& trial) {
  const size_t width = recording_.params.size();
  if (values.size() != width) {
    return absl::InvalidArgumentError(
        absl::StrCat("a config has ", values.size(), " values for ", width, " params"));
  }
  if (recording_.trials.size() >= kMaxRecordedTrials) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a recording has at most ", kMaxRecordedTrials, " configs"));
  }
  std::vector<uint16_t> row;
  for (size_t i = 0; i < width; ++i) {
    SpaceParam& param = recording_.params[i];
    auto [digit, is_new] = digits_[i].emplace(KeyOf(values[i]), uint16_t{0});
    if (is_new) {
      if (values_given_[i] || param.values.size() >= kMaxValues) {
        const std::string text = digit->first;
        digits_[i].erase(digit);
        return absl::InvalidArgumentError(
            absl::StrCat("param '", param.name, "' has no value ", text,
                         values_given_[i] ? "" : ": it has too many values already"));
      }
      digit->second = static_cast<uint16_t>(param.values.size());
      param.values.push_back(values[i]);
    }
    row.push_back(digit->second);
  }
  recording_.digits.insert(recording_.digits.end(), row.begin(), row.end());
  recording_.trials.push_back(trial);
  return absl::OkStatus();
}

void RecordingBuilder::SortSeenValues(size_t param) {
  std::vector<Value>& values = recording_.params[param].values;
  for (const Value& value : values) {
    if (!NumberOf(value)) return;
  }
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::sort(order.begin(), order.end(),
            [&](uint16_t a, uint16_t b) { return *NumberOf(values[a]) < *NumberOf(values[b]); });
  std::vector<Value> sorted;
  std::vector<uint16_t> place(values.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(values[order[i]]);
    place[order[i]] = static_cast<uint16_t>(i);
  }
  values = std::move(sorted);
  const size_t width = recording_.params.size();
  for (size_t at = param; at < recording_.digits.size(); at += width) {
    recording_.digits[at] = place[recording_.digits[at]];
  }
}

absl::Status RecordingBuilder::Check() const {
  if (recording_.params.empty() || recording_.params.size() > kMaxParams) {
    return absl::InvalidArgumentError(absl::StrCat("a recording has 1 to ", kMaxParams,
                                                   " params, not ", recording_.params.size()));
  }
  std::set<std::string> names;
  for (const SpaceParam& param : recording_.params) {
    if (param.name.empty() || !names.insert(param.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("a param's name is empty or taken twice: '", param.name, "'"));
    }
    if (param.values.size() > kMaxValues) {
      return absl::InvalidArgumentError(
          absl::StrCat("param '", param.name, "' has more than ", kMaxValues, " values"));
    }
  }
  if (recording_.trials.empty()) {
    return absl::InvalidArgumentError("the recording holds no configs");
  }
  return absl::OkStatus();
}

absl::StatusOr<Recording> RecordingBuilder::Build() && {
  RETURN_IF_ERROR(Check());
  for (size_t i = 0; i < recording_.params.size(); ++i) {
    if (!values_given_[i]) SortSeenValues(i);
  }
  std::vector<uint32_t> order(recording_.trials.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const absl::Span<const uint16_t> left = recording_.DigitsOf(a);
    const absl::Span<const uint16_t> right = recording_.DigitsOf(b);
    return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end());
  });
  std::vector<RecordedTrial> trials;
  std::vector<uint16_t> digits;
  digits.reserve(recording_.digits.size());
  const size_t width = recording_.params.size();
  for (uint32_t trial : order) {
    const absl::Span<const uint16_t> row = recording_.DigitsOf(trial);
    if (!trials.empty() && std::equal(row.begin(), row.end(), digits.end() - width)) continue;
    digits.insert(digits.end(), row.begin(), row.end());
    trials.push_back(recording_.trials[trial]);
  }
  recording_.trials = std::move(trials);
  recording_.digits = std::move(digits);
  return std::move(recording_);
}

RecordedSpace::RecordedSpace(Recording recording, Space space)
    : recording_(std::move(recording)), space_(std::move(space)) {
  if (const std::optional<size_t> best = recording_.Best()) {
    optimum_ns_ = recording_.trials[*best].latency_ns;
  }
}

absl::StatusOr<RecordedSpace> RecordedSpace::Create(Recording recording) {
  ASSIGN_OR_RETURN(Space space, Space::FromRows(recording.params, recording.digits));
  return RecordedSpace(std::move(recording), std::move(space));
}

}  // namespace tune::replay
