// SPDX-License-Identifier: Apache-2.0
// Each field of the key, of each record that came near, as facts and as text.
#include <algorithm>
#include <tuple>
#include <utility>

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

// "1.3%", "88 times".
std::string Percent(double share) {
  return share < 10 ? absl::StrFormat("%.1f%%", share * 100) : absl::StrFormat("%.0f times", share);
}

Candidate Compare(const lookup::Query& asked, const lookup::KernelPolicy& policy,
                  const ConfigRules& rules, const lookup::Record& record) {
  lookup::KeyComparison comparison = CompareKeys(asked, policy, record.key);
  return {.record = record.id,
          .config_is_valid = rules.IsValid(record.trial.config),
          .fields = std::move(comparison.fields),
          .distance = comparison.distance};
}

void AddLines(const Candidate& candidate, std::string& text) {
  const std::vector<std::string> blocked = candidate.BlockedBy();
  const std::string mark = candidate.answers ? "answers"
                           : blocked.empty()
                               ? "farther"
                               : absl::StrCat("differs in ", absl::StrJoin(blocked, ", "));
  const std::string record =
      candidate.record == 0 ? "shipped record" : absl::StrCat("record ", candidate.record);
  absl::StrAppend(&text, "\n", record, ": ", mark);
  for (const lookup::KeyField& field : candidate.fields) {
    absl::StrAppendFormat(&text, "\n    %-12s%s (%s) = %s", field.verdict, field.name, field.rule,
                          field.asked);
    if (field.verdict == "same") continue;
    absl::StrAppend(&text, "  the record's ", field.there.empty() ? "None" : field.there);
  }
  if (!candidate.config_is_valid) {
    absl::StrAppend(&text, "\n    differs     config: not valid for this problem");
  }
}

// Records that came with the program have no number, so their measurements tell them apart.
bool IsOf(const lookup::Record& record, const Snapshot& snapshot, const Answer& answer) {
  return answer.match != lookup::Match::kNone && record.id == answer.record &&
         record.published_unix_ms == answer.published_unix_ms &&
         snapshot.EvidenceOf(record).digest == answer.evidence;
}

std::string Headline(const Answer& answer) {
  const std::string config = ToText(answer.config);
  // A reason begins with the match, unless that is a default's.
  const std::string match = absl::StrReplaceAll(MatchName(answer.match), {{"_", " "}});
  const bool is_said = absl::StartsWith(answer.reason, match);
  return absl::StrCat("<", answer.kernel, ": ", config.empty() ? "no config" : config, "; ",
                      is_said ? "" : match + ": ", answer.reason,
                      ">\nexpected: ", TextOf(answer.expectation));
}

}  // namespace

std::string TextOf(const Expectation& expectation) {
  if (expectation.basis == Basis::kNothing) {
    return "unknown: nothing was measured that says anything";
  }
  if (expectation.basis == Basis::kMeasured) {
    const std::string high = Percent(expectation.loss_high);
    if (expectation.loss_high > kNoisyWidth) {
      return absl::StrCat("may lose up to ", high,
                          ": measured here, but the host was too noisy to tell");
    }
    return absl::StrCat("loses nothing: measured here, to ", high);
  }
  const size_t count = expectation.neighbours.size();
  return absl::StrCat("loses ", Percent(expectation.loss),
                      " against the best there would be; nine of ten times ",
                      Percent(expectation.loss_low), " to ", Percent(expectation.loss_high),
                      "; by ", count, " tuned shape", count == 1 ? "" : "s",
                      expectation.basis == Basis::kSibling ? " of another device" : "");
}

std::vector<std::string> Candidate::BlockedBy() const {
  std::vector<std::string> blocked;
  for (const lookup::KeyField& field : fields) {
    if (field.differs()) blocked.push_back(field.name);
  }
  if (!config_is_valid) blocked.push_back("config");
  return blocked;
}

std::vector<Candidate> Candidates(const Snapshot* snapshot, const Answer& answer, size_t most) {
  const SnapshotKernel* kernel =
      snapshot == nullptr ? nullptr : snapshot->FindKernel(answer.kernel);
  if (kernel == nullptr || answer.dims.empty()) return {};
  const Problem problem{answer.dims, *ParseDType(answer.dtype)};
  const ConfigRules rules(*kernel, problem, snapshot->TargetNamed(answer.target));
  const lookup::KernelPolicy policy = kernel->Policy();
  const lookup::Query asked{.kernel_hash = kernel->hash,
                            .problem = problem,
                            .device_name = answer.device,
                            .target = answer.target,
                            .driver = answer.driver};
  std::vector<Candidate> all;
  const lookup::Index& index = snapshot->IndexOf(answer.kernel);
  for (const lookup::RecordPtr& record : index.Records(answer.kernel)) {
    Candidate& candidate = all.emplace_back(Compare(asked, policy, rules, *record));
    candidate.answers = IsOf(*record, *snapshot, answer);
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    const auto unlikeness = [](const Candidate& one) {
      return std::tuple(!one.answers, one.BlockedBy().size(), one.distance, -one.record);
    };
    return unlikeness(a) < unlikeness(b);
  });
  all.resize(std::min(all.size(), most));
  return all;
}

std::string Explain(const Answer& answer, const std::vector<Candidate>& candidates) {
  std::string text = Headline(answer);
  for (const Neighbour& neighbour : answer.expectation.neighbours) {
    const std::string dims = absl::StrJoin(neighbour.dims, " ", absl::PairFormatter("="));
    absl::StrAppendFormat(&text, "\n    %-32sweight %.0f%%, loses %s there", dims,
                          neighbour.weight * 100, Percent(neighbour.loss));
  }
  for (const Candidate& candidate : candidates) AddLines(candidate, text);
  return text;
}

}  // namespace tune::library
