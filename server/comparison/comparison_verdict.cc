// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_verdict.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "tuner/trial.h"

namespace tune::server {
namespace {

// "256" of cols=256, or the whole problem where no dim is swept.
std::string SizeOf(const ComparisonEvidence& evidence, const Problem& problem) {
  for (const auto& [name, value] : problem.dims) {
    if (name == evidence.run.sweep_dim) return absl::StrCat(value);
  }
  return ToText(problem);
}

// "cols=256, 512".
std::string Places(const ComparisonEvidence& evidence, const std::vector<std::string>& sizes) {
  const std::string& dim = evidence.run.sweep_dim;
  return absl::StrCat(dim, dim.empty() ? "" : "=", absl::StrJoin(sizes, ", "));
}

bool HasRatio(const ComparedFindings& findings) { return findings.ratio.ratio > 0; }

// Then its time says nothing.
bool Differs(const ComparedFindings& findings) {
  return findings.row.agreement == Outcome::kWrongResult;
}

std::string DiffersFrom(const std::string& label, const std::string& first) {
  return absl::StrCat(label, " is not judged: its results differ from those of ", first);
}

// Of one problem.
std::string VerdictOf(const ComparedFindings& findings, const std::string& first) {
  if (Differs(findings)) return DiffersFrom(findings.row.label, first);
  const RatioInterval& ratio = findings.ratio;
  const char* standing = ratio.high < 1  ? " is faster than "
                         : ratio.low > 1 ? " is slower than "
                                         : " is not told from ";
  const std::string interval = std::isfinite(ratio.high)
                                   ? absl::StrFormat(" [%.3f, %.3f]", ratio.low, ratio.high)
                                   : "; one round tells no interval";
  return absl::StrCat(findings.row.label, standing, first, ": ",
                      absl::StrFormat("%.3f", ratio.ratio), " of its time", interval);
}

// Of a kernel at several problems.
struct Tally {
  std::string label;
  std::vector<std::string> faster;
  std::vector<std::string> slower;
  std::vector<std::string> differing;  // which have no verdict
  size_t undecided = 0;
  double log_ratios = 0;

  size_t count() const { return faster.size() + slower.size() + undecided; }
};

std::string VerdictOf(const ComparisonEvidence& evidence, const Tally& tally,
                      const std::string& first) {
  if (tally.count() == 0) return DiffersFrom(tally.label, first);
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& sizes) {
    if (sizes.empty()) return;
    const bool all = sizes.size() == tally.count();
    parts.push_back(absl::StrCat(
        what, all ? " at all of them" : absl::StrCat(" at ", Places(evidence, sizes))));
  };
  add("faster", tally.faster);
  add("slower", tally.slower);
  if (tally.undecided > 0) {
    parts.push_back(absl::StrCat("not told apart at ", tally.undecided == tally.count()
                                                           ? "any of them"
                                                           : absl::StrCat(tally.undecided)));
  }
  if (!tally.differing.empty()) {
    parts.push_back(absl::StrCat("not judged at ", Places(evidence, tally.differing),
                                 ", where its results differ"));
  }
  return absl::StrFormat("%s takes %.3f of %s's time in the geometric mean of %s: %s", tally.label,
                         std::exp(tally.log_ratios / static_cast<double>(tally.count())), first,
                         Counted(tally.count(), "problem"), absl::StrJoin(parts, ", "));
}

Tally TallyOf(const ComparisonEvidence& evidence, const std::string& label) {
  Tally tally{.label = label};
  for (const std::vector<ComparedFindings>& kernels : evidence.problems) {
    for (const ComparedFindings& findings : kernels) {
      if (findings.row.label != label || !HasRatio(findings)) continue;
      if (Differs(findings)) {
        tally.differing.push_back(SizeOf(evidence, findings.row.problem));
        continue;
      }
      const RatioInterval& ratio = findings.ratio;
      tally.log_ratios += std::log(ratio.ratio);
      if (ratio.high < 1) {
        tally.faster.push_back(SizeOf(evidence, findings.row.problem));
      } else if (ratio.low > 1) {
        tally.slower.push_back(SizeOf(evidence, findings.row.problem));
      } else {
        ++tally.undecided;
      }
    }
  }
  return tally;
}

// In the order of the request.
std::vector<std::string> LabelsOf(const ComparisonEvidence& evidence) {
  std::vector<std::string> labels;
  if (evidence.problems.empty()) return labels;
  for (const ComparedFindings& findings : evidence.problems.front()) {
    labels.push_back(findings.row.label);
  }
  return labels;
}

}  // namespace

std::vector<std::string> VerdictsOf(const ComparisonEvidence& evidence) {
  std::vector<std::string> verdicts;
  const std::vector<std::string> labels = LabelsOf(evidence);
  for (size_t i = 1; i < labels.size(); ++i) {
    const Tally tally = TallyOf(evidence, labels[i]);
    if (tally.count() == 0 && tally.differing.empty()) continue;
    if (evidence.problems.size() == 1) {
      verdicts.push_back(VerdictOf(evidence.problems.front()[i], labels[0]));
    } else {
      verdicts.push_back(VerdictOf(evidence, tally, labels[0]));
    }
  }
  return verdicts;
}

std::vector<std::string> WarningsOf(const ComparisonEvidence& evidence) {
  std::vector<std::string> warnings;
  for (const std::string& label : LabelsOf(evidence)) {
    std::vector<std::string> sizes;
    for (const std::vector<ComparedFindings>& kernels : evidence.problems) {
      for (const ComparedFindings& findings : kernels) {
        if (findings.row.label != label || !TooNoisyToTell(findings.measurement)) continue;
        sizes.push_back(SizeOf(evidence, findings.row.problem));
      }
    }
    if (sizes.empty()) continue;
    const std::string where =
        evidence.run.sweep_dim.empty() ? "" : absl::StrCat(" at ", Places(evidence, sizes));
    warnings.push_back(absl::StrCat(label, where,
                                    ": the interval is wider than a fifth of the latency; compare "
                                    "again when the host is quiet"));
  }
  return warnings;
}

}  // namespace tune::server
