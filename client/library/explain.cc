// SPDX-License-Identifier: Apache-2.0
// Each field of the key, of each record that came near, as text: what the Python package prints.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/library/resolve.h"
#include "server/records/lookup/reason.h"

namespace tune::library {
namespace {

using server::DimMatch;

constexpr size_t kHashDigits = 12;  // enough to tell two apart by eye
constexpr char kDiffers[] = "differs";

// A record beside the question.
struct Compared {
  int64_t record = 0;
  bool answers = false;
  std::vector<std::string> differs;  // fields, "config" among them if it is not valid
  std::string lines;
  double distance = 0;  // in powers of two, over all axes
};

void AddField(const std::string& name, const std::string& rule, const std::string& asked,
              const std::string& there, const std::string& verdict, Compared& compared) {
  if (verdict == kDiffers) compared.differs.push_back(name);
  absl::StrAppendFormat(&compared.lines, "\n    %-12s%s (%s) = %s", verdict, name, rule, asked);
  if (verdict != "same") absl::StrAppend(&compared.lines, "  the record's ", there);
}

void AddHard(const char* name, const std::string& asked, const std::string& there,
             Compared& compared) {
  AddField(name, "hard", asked, there, asked == there ? "same" : kDiffers, compared);
}

std::optional<int64_t> DimOf(const Problem& problem, const std::string& name) {
  for (const auto& [dim, value] : problem.dims) {
    if (dim == name) return value;
  }
  return std::nullopt;
}

const char* VerdictOn(DimMatch match, int64_t asked, std::optional<int64_t> there) {
  if (asked == there) return "same";
  if (match == DimMatch::kIgnored) return "ignored";
  if (!there.has_value() || match == DimMatch::kExact) return kDiffers;
  const server::Bucket bucket = server::BucketOf(asked);
  const bool inside = *there >= bucket.low && *there <= bucket.high;
  return match == DimMatch::kBucketed && inside ? "same bucket" : "near";
}

Compared Compare(const KernelRules& kernel, const Answer& answer, const ConfigRules& rules,
                 const db::RecordRow& record) {
  const db::TrialKey& key = record.key;
  Compared compared{.record = record.id, .answers = record.id == answer.record};
  AddHard("kernel_hash", kernel.hash.substr(0, kHashDigits), key.kernel_hash.substr(0, kHashDigits),
          compared);
  AddHard("target", answer.target, key.target, compared);
  AddHard("device", answer.device, key.device_name, compared);
  AddHard("dtype", answer.dtype, ToText(key.problem.dtype), compared);
  for (size_t i = 0; i < answer.dims.size(); ++i) {
    const auto& [name, asked] = answer.dims[i];
    const DimMatch match = kernel.dims[i].match;
    const std::optional<int64_t> there = DimOf(key.problem, name);
    AddField(name, ToText(match), absl::StrCat(asked), there ? absl::StrCat(*there) : "None",
             VerdictOn(match, asked, there), compared);
    if (there && (match == DimMatch::kNearest || match == DimMatch::kBucketed)) {
      compared.distance += std::abs(AxisPosition(asked) - AxisPosition(*there));
    }
  }
  if (!answer.driver.empty() && !key.driver.empty()) {
    AddField("driver", "soft", answer.driver, key.driver,
             answer.driver == key.driver ? "same" : "near", compared);
  }
  const bool warm = key.cache_mode == CacheMode::kWarm;
  AddField("cache_mode", "soft", "cold", warm ? "warm" : "cold", warm ? "near" : "same", compared);
  if (!rules.IsValid(record.trial.config)) {
    compared.differs.push_back("config");
    absl::StrAppend(&compared.lines, "\n    differs     config: not valid for this problem");
  }
  return compared;
}

std::string TextOf(const Expectation& expectation) {
  const auto percent = [](double share) { return absl::StrFormat("%.1f%%", share * 100); };
  if (expectation.basis == Basis::kNothing) {
    return "unknown: nothing was measured that says anything";
  }
  if (expectation.basis == Basis::kMeasured) {
    return absl::StrCat("loses nothing: measured here, to ", percent(expectation.loss_high));
  }
  const size_t count = expectation.neighbours.size();
  std::string text = absl::StrCat(
      "loses ", percent(expectation.loss), " against the best there would be; nine of ten times ",
      percent(expectation.loss_low), " to ", percent(expectation.loss_high), "; by ", count,
      " tuned shape", count == 1 ? "" : "s",
      expectation.basis == Basis::kSibling ? " of another device" : "");
  for (const Neighbour& neighbour : expectation.neighbours) {
    const std::string dims = absl::StrJoin(neighbour.dims, " ", absl::PairFormatter("="));
    absl::StrAppendFormat(&text, "\n    %-32sweight %.0f%%, loses %s there", dims,
                          neighbour.weight * 100, percent(neighbour.loss));
  }
  return text;
}

std::string TextOf(const Answer& answer) {
  const std::string config = ToText(answer.config);
  return absl::StrCat("<", answer.kernel, ": ", config.empty() ? "no config" : config, "; ",
                      MatchName(answer.match), ": ", answer.reason, ">\nexpected: ",
                      TextOf(answer.expectation));
}

}  // namespace

std::string Explain(const Snapshot& snapshot, const Answer& answer, size_t most) {
  std::string text = TextOf(answer);
  const KernelRules* kernel = snapshot.FindKernel(answer.kernel);
  if (kernel == nullptr || answer.dims.empty()) return text;
  const Problem problem{answer.dims, *ParseDType(answer.dtype)};
  const Target target = snapshot.TargetNamed(answer.target);
  const ConfigRules rules(*kernel, problem, target);
  std::vector<Compared> all;
  for (const server::LookupIndex::Record& record : snapshot.index().Records(answer.kernel)) {
    all.push_back(Compare(*kernel, answer, rules, *record));
  }
  std::stable_sort(all.begin(), all.end(), [](const Compared& a, const Compared& b) {
    const auto unlikeness = [](const Compared& one) {
      return std::tuple(!one.answers, one.differs.size(), one.distance, -one.record);
    };
    return unlikeness(a) < unlikeness(b);
  });
  all.resize(std::min(all.size(), most));
  for (const Compared& one : all) {
    const std::string mark = one.answers ? "answers"
                             : one.differs.empty()
                                 ? "farther"
                                 : absl::StrCat("differs in ", absl::StrJoin(one.differs, ", "));
    absl::StrAppend(&text, "\nrecord ", one.record, ": ", mark, one.lines);
  }
  return text;
}

}  // namespace tune::library
