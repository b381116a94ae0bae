// SPDX-License-Identifier: Apache-2.0
// Each field of the key, of each record that came near, as text: what the Python package prints.
#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/libtune/resolve.h"
#include "lookup/expectation.h"
#include "lookup/key_fields.h"

namespace tune::library {
namespace {

// A record beside the question.
struct Compared {
  int64_t record = 0;
  bool answers = false;
  std::vector<std::string> differs;  // fields, "config" among them if it is not valid
  std::string lines;
  double distance = 0;  // in powers of two, over all axes
};

void AddField(const lookup::KeyField& field, Compared& compared) {
  if (field.differs()) compared.differs.push_back(field.name);
  absl::StrAppendFormat(&compared.lines, "\n    %-12s%s (%s) = %s", field.verdict, field.name,
                        field.rule, field.asked);
  if (field.verdict != "same") {
    absl::StrAppend(&compared.lines, "  the record's ", field.there.empty() ? "None" : field.there);
  }
}

Compared Compare(const lookup::Query& asked, const lookup::KernelPolicy& policy,
                 const ConfigRules& rules, const lookup::Record& record) {
  const lookup::KeyComparison comparison = CompareKeys(asked, policy, record.key);
  Compared compared{.record = record.id, .distance = comparison.distance};
  for (const lookup::KeyField& field : comparison.fields) AddField(field, compared);
  if (!rules.IsValid(record.trial.config)) {
    compared.differs.push_back("config");
    absl::StrAppend(&compared.lines, "\n    differs     config: not valid for this problem");
  }
  return compared;
}

// Records that came with the program have no number, so their measurements tell them apart.
bool IsOf(const lookup::Record& record, const Snapshot& snapshot, const Answer& answer) {
  return answer.match != lookup::Match::kNone && record.id == answer.record &&
         record.published_unix_ms == answer.published_unix_ms &&
         snapshot.EvidenceOf(record).digest == answer.evidence;
}

std::string TextOf(const Expectation& expectation) {
  const auto percent = [](double share) { return absl::StrFormat("%.1f%%", share * 100); };
  if (expectation.basis == Basis::kNothing) {
    return "unknown: nothing was measured that says anything";
  }
  if (expectation.basis == Basis::kMeasured) {
    const std::string high = percent(expectation.loss_high);
    if (expectation.loss_high > lookup::kNoisyLoss) {
      return absl::StrCat("may lose up to ", high,
                          ": measured here, but the host was too noisy to tell");
    }
    return absl::StrCat("loses nothing: measured here, to ", high);
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
  // A reason begins with the match, unless that is a default's.
  const std::string match = absl::StrReplaceAll(MatchName(answer.match), {{"_", " "}});
  const bool is_said = absl::StartsWith(answer.reason, match);
  return absl::StrCat("<", answer.kernel, ": ", config.empty() ? "no config" : config, "; ",
                      is_said ? "" : match + ": ", answer.reason,
                      ">\nexpected: ", TextOf(answer.expectation));
}

}  // namespace

std::string Explain(const Snapshot& snapshot, const Answer& answer, size_t most) {
  std::string text = TextOf(answer);
  const SnapshotKernel* kernel = snapshot.FindKernel(answer.kernel);
  if (kernel == nullptr || answer.dims.empty()) return text;
  const Problem problem{answer.dims, *ParseDType(answer.dtype)};
  const ConfigRules rules(*kernel, problem, snapshot.TargetNamed(answer.target));
  const lookup::KernelPolicy policy = kernel->Policy();
  const lookup::Query asked{.kernel_hash = kernel->hash,
                            .problem = problem,
                            .device_name = answer.device,
                            .target = answer.target,
                            .driver = answer.driver};
  std::vector<Compared> all;
  const lookup::Index& index = snapshot.IndexOf(answer.kernel);
  for (const lookup::RecordPtr& record : index.Records(answer.kernel)) {
    Compared& compared = all.emplace_back(Compare(asked, policy, rules, *record));
    compared.answers = IsOf(*record, snapshot, answer);
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
    const std::string record =
        one.record == 0 ? "shipped record" : absl::StrCat("record ", one.record);
    absl::StrAppend(&text, "\n", record, ": ", mark, one.lines);
  }
  return text;
}

}  // namespace tune::library
