// SPDX-License-Identifier: Apache-2.0
#include "server/records/explanation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/records/lookup/reason.h"

namespace tune::server {
namespace {

constexpr size_t kHashDigits = 12;  // enough to tell two apart by eye

// A record beside the question, and how unlike they are.
struct Compared {
  Candidate candidate;
  size_t blocks = 0;    // fields that differ, an invalid config among them
  double distance = 0;  // in powers of two, over all axes
};

std::optional<int64_t> DimOf(const Problem& problem, const std::string& name) {
  for (const auto& [dim, value] : problem.dims) {
    if (dim == name) return value;
  }
  return std::nullopt;
}

const char* VerdictOn(DimMatch match, int64_t asked, std::optional<int64_t> there) {
  if (asked == there) return "same";
  if (match == DimMatch::kIgnored) return "ignored";
  if (!there || match == DimMatch::kExact) return "differs";
  const Bucket bucket = BucketOf(asked);
  const bool inside = *there >= bucket.low && *there <= bucket.high;
  return match == DimMatch::kBucketed && inside ? "same bucket" : "near";
}

KeyField Hard(const char* name, const std::string& asked, const std::string& there) {
  return {name, "hard", asked, there, asked == there ? "same" : "differs"};
}

// What may differ, where it is known of the device that was asked for.
void AddDriver(const RecordAnswer& answer, const db::RecordRow& record, Candidate& candidate) {
  const std::string& there = record.key.driver;
  if (answer.driver.empty() || there.empty()) return;
  candidate.fields.push_back(
      {"driver", "soft", answer.driver, there, answer.driver == there ? "same" : "near"});
}

void AddDims(const RecordAnswer& answer, const db::RecordRow& record, Compared& compared) {
  const KernelPolicy policy = PolicyOf(answer.kernel_name, *answer.kernel);
  for (const auto& [name, asked] : answer.problem.dims) {
    const DimMatch match = policy.dims.at(name);
    const std::optional<int64_t> there = DimOf(record.key.problem, name);
    compared.candidate.fields.push_back({name, ToText(match), absl::StrCat(asked),
                                         there ? absl::StrCat(*there) : "",
                                         VerdictOn(match, asked, there)});
    const bool lies_on_axis = match == DimMatch::kNearest || match == DimMatch::kBucketed;
    if (there && lies_on_axis) {
      compared.distance += std::abs(AxisPosition(asked) - AxisPosition(*there));
    }
  }
}

Compared Compare(const RecordAnswer& answer, const db::RecordRow& record) {
  const db::TrialKey& key = record.key;
  const Kernel& kernel = *answer.kernel;
  Compared compared;
  Candidate& candidate = compared.candidate;
  candidate.record_id = record.id;
  candidate.answers = answer.record != nullptr && answer.record->id == record.id;
  candidate.fields = {
      Hard("kernel_hash", kernel.hash().substr(0, kHashDigits),
           key.kernel_hash.substr(0, kHashDigits)),
      Hard("target", answer.traits.target, key.target),
      Hard("device", answer.device_name, key.device_name),
      Hard("dtype", ToText(answer.problem.dtype), ToText(key.problem.dtype))};
  AddDims(answer, record, compared);
  AddDriver(answer, record, candidate);
  const bool warm = key.cache_mode == CacheMode::kWarm;
  candidate.fields.push_back(
      {"cache_mode", "soft", "cold", warm ? "warm" : "cold", warm ? "near" : "same"});
  candidate.config_is_valid =
      kernel.CheckConfig(answer.problem, answer.traits, record.trial.config).ok();
  compared.blocks = candidate.config_is_valid ? 0 : 1;
  for (const KeyField& field : candidate.fields) compared.blocks += field.verdict == "differs";
  return compared;
}

}  // namespace

std::vector<Candidate> CompareWithRecords(const RecordAnswer& answer, size_t most) {
  std::vector<Compared> all;
  for (const LookupIndex::Record& record : answer.snapshot->Records(answer.kernel_name)) {
    all.push_back(Compare(answer, *record));
  }
  std::sort(all.begin(), all.end(), [](const Compared& a, const Compared& b) {
    const auto unlikeness = [](const Compared& one) {
      return std::tuple(!one.candidate.answers, one.blocks, one.distance,
                        -one.candidate.record_id);
    };
    return unlikeness(a) < unlikeness(b);
  });
  all.resize(std::min(all.size(), most));
  std::vector<Candidate> candidates;
  for (Compared& one : all) candidates.push_back(std::move(one.candidate));
  return candidates;
}

}  // namespace tune::server
