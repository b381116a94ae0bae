// SPDX-License-Identifier: Apache-2.0
#include "lookup/reason.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace tune::lookup {
namespace {

// Enough of a hash to distinguish two by eye.
std::string ShortHash(const std::string& hash) { return hash.substr(0, 12); }

DimMatch MatchOf(const std::map<std::string, DimMatch>& dims, const std::string& name) {
  auto found = dims.find(name);
  return found == dims.end() ? DimMatch::kNearest : found->second;
}

// "a factor of 2.73", "a factor of 2341".
std::string FactorText(double factor) {
  const bool is_long = factor >= 1000 && factor < 1e15;
  return absl::StrCat("a factor of ",
                      is_long ? absl::StrFormat("%.0f", factor) : absl::StrFormat("%.3g", factor));
}

struct Differences {
  std::vector<std::string> texts;    // of dims that matter
  std::vector<std::string> ignored;  // of dims that do not
  double distance = 0;               // in powers of two, over all axes
};

std::string DescribeDim(const std::string& name, int64_t asked, int64_t there, bool bucketed) {
  std::string text = absl::StrCat(name, " is ", asked, " and the record's ", there);
  const Bucket bucket = BucketOf(asked);
  if (bucketed && there >= bucket.low && there <= bucket.high) {
    return absl::StrCat(text, " (both in ", bucket.low, " to ", bucket.high, ")");
  }
  const double factor = std::exp2(std::abs(AxisPosition(asked) - AxisPosition(there)));
  return factor < 1.005 ? text : absl::StrCat(text, " (", FactorText(factor), ")");
}

Differences Compare(const Problem& asked, const Problem& there,
                    const std::map<std::string, DimMatch>& dims) {
  Differences differences;
  for (const auto& [name, value] : asked.dims) {
    auto same = std::find_if(there.dims.begin(), there.dims.end(),
                             [&, &name = name](const auto& dim) { return dim.first == name; });
    if (same == there.dims.end() || same->second == value) continue;
    const DimMatch match = MatchOf(dims, name);
    if (match == DimMatch::kIgnored) {
      differences.ignored.push_back(
          absl::StrCat(name, " (", value, ", the record's ", same->second, ")"));
      continue;
    }
    differences.texts.push_back(
        DescribeDim(name, value, same->second, match == DimMatch::kBucketed));
    differences.distance += std::abs(AxisPosition(value) - AxisPosition(same->second));
  }
  return differences;
}

std::string Opening(Match match, const Query& query, const Record& record) {
  switch (match) {
    case Match::kExact:
      return absl::StrCat("exact: this problem was tuned on ", record.key.device_name);
    case Match::kBucketed:
      return absl::StrCat("bucketed: on ", record.key.device_name);
    case Match::kNearest:
      return absl::StrCat("nearest on ", record.key.device_name);
    case Match::kOtherDevice:
      return absl::StrCat("other device: asked for ", query.device_name, ", tuned on ",
                          record.key.device_name, " (both ", record.key.target, ")");
    case Match::kNone:
      break;
  }
  return "";
}

}  // namespace

const char* ToText(DimMatch match) {
  switch (match) {
    case DimMatch::kExact:
      return "exact";
    case DimMatch::kBucketed:
      return "bucketed";
    case DimMatch::kIgnored:
      return "ignored";
    case DimMatch::kNearest:
      break;
  }
  return "nearest";
}

Bucket BucketOf(int64_t value) {
  if (value <= 1) return {value, value};
  const uint64_t high = std::bit_ceil(static_cast<uint64_t>(value));
  const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return {static_cast<int64_t>(high / 2) + 1, static_cast<int64_t>(std::min(high, most))};
}

std::string ExplainMatch(Match match, const Query& query, const Record& record,
                         const KernelPolicy& policy, const std::string& wanted_hash) {
  const Differences differences = Compare(query.problem, record.key.problem, policy.dims);
  std::string reason = Opening(match, query, record);
  if (!differences.texts.empty()) {
    absl::StrAppend(&reason, ": ", absl::StrJoin(differences.texts, ", "));
    if (differences.texts.size() > 1) {
      absl::StrAppend(&reason, ", ", FactorText(std::exp2(differences.distance)), " in all");
    }
  } else if (match == Match::kNearest) {
    absl::StrAppend(&reason, ": the same problem");
  }
  if (!differences.ignored.empty()) {
    absl::StrAppend(&reason, "; ", absl::StrJoin(differences.ignored, ", "),
                    " does not matter to this kernel");
  }
  if (!wanted_hash.empty() && wanted_hash != record.key.kernel_hash) {
    absl::StrAppend(&reason, "; the kernel's source differs: tuned ",
                    ShortHash(record.key.kernel_hash), ", asked for ", ShortHash(wanted_hash));
  } else if (!policy.HasHeadersOf(record.key)) {
    const std::string& tuned = record.key.include_digest;
    const bool offered = policy.include_digest != kHeadersNotOffered;
    absl::StrAppend(&reason, "; the headers of its include roots ",
                    offered ? "differ" : "are not offered here", ": tuned ",
                    tuned.empty() ? "with others" : ShortHash(tuned),
                    offered ? ", here are " + ShortHash(policy.include_digest) : "");
  }
  const bool same_device = match != Match::kOtherDevice;
  if (same_device && !query.driver.empty() && !record.key.driver.empty() &&
      query.driver != record.key.driver) {
    absl::StrAppend(&reason, "; other driver: measured with ", record.key.driver, ", here is ",
                    query.driver);
  }
  if (record.key.cache_mode == CacheMode::kWarm) {
    absl::StrAppend(&reason, "; measured with warm caches");
  }
  if (record.id == 0) {
    absl::StrAppend(&reason, "; a record that came with tunectl, of ",
                    absl::FormatTime("%Y-%m-%d", absl::FromUnixMillis(record.published_unix_ms),
                                     absl::UTCTimeZone()));
  }
  return reason;
}

}  // namespace tune::lookup
