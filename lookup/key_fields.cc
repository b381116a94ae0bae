// SPDX-License-Identifier: Apache-2.0
#include "lookup/key_fields.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lookup/reason.h"

namespace tune::lookup {
namespace {

constexpr size_t kHashDigits = 12;  // enough to tell two apart by eye

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

}  // namespace

KeyComparison CompareKeys(const Query& asked, const KernelPolicy& policy, const TrialKey& there) {
  KeyComparison comparison;
  comparison.fields = {Hard("kernel_hash", asked.kernel_hash.substr(0, kHashDigits),
                            there.kernel_hash.substr(0, kHashDigits)),
                       Hard("target", asked.target, there.target),
                       Hard("device", asked.device_name, there.device_name),
                       Hard("dtype", ToText(asked.problem.dtype), ToText(there.problem.dtype))};
  if (!policy.include_digest.empty()) {
    comparison.fields.push_back(Hard("include_digest", policy.include_digest.substr(0, kHashDigits),
                                     there.include_digest.substr(0, kHashDigits)));
  }
  for (const auto& [name, value] : asked.problem.dims) {
    const DimMatch match = policy.dims.at(name);
    const std::optional<int64_t> other = DimOf(there.problem, name);
    comparison.fields.push_back({name, ToText(match), absl::StrCat(value),
                                 other ? absl::StrCat(*other) : "",
                                 VerdictOn(match, value, other)});
    const bool lies_on_axis = match == DimMatch::kNearest || match == DimMatch::kBucketed;
    if (other && lies_on_axis) {
      comparison.distance += std::abs(AxisPosition(value) - AxisPosition(*other));
    }
  }
  if (!there.driver.empty()) {
    const bool is_known = !asked.driver.empty();
    const char* verdict = !is_known ? "ignored" : asked.driver == there.driver ? "same" : "near";
    comparison.fields.push_back(
        {"driver", "soft", is_known ? asked.driver : "not known", there.driver, verdict});
  }
  const bool warm = there.cache_mode == CacheMode::kWarm;
  comparison.fields.push_back(
      {"cache_mode", "soft", "cold", warm ? "warm" : "cold", warm ? "near" : "same"});
  return comparison;
}

}  // namespace tune::lookup
