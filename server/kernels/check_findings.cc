// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/check_findings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/plural.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

constexpr size_t kFindingsMax = 100;
constexpr size_t kTargetsShown = 6;

// The first line of a compiler's log that is an error; empty if there is none.
absl::string_view FirstError(absl::string_view log) {
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, "error:") || absl::StrContains(line, "error   :")) return line;
  }
  return "";
}

// "softmax.cu:12" of "softmax.cu:12:9: error: ..." or "softmax.cu(12): error: ...".
std::string PlaceOfError(absl::string_view line) {
  size_t end = line.find_first_of(":(");
  if (end == 0 || end == absl::string_view::npos) return "";
  const absl::string_view file = line.substr(0, end);
  const size_t begin = ++end;
  while (end < line.size() && absl::ascii_isdigit(static_cast<unsigned char>(line[end]))) ++end;
  if (end == begin || absl::StrContains(file, ' ')) return "";
  return absl::StrCat(file, ":", line.substr(begin, end - begin));
}

// Messages with equal keys are of one mistake.
std::string KeyOf(const std::string& target, const std::string& message) {
  const absl::string_view error = FirstError(message);
  const std::string place = PlaceOfError(error);
  if (!place.empty()) return place;
  return absl::StrReplaceAll(error.empty() ? absl::string_view(message) : error,
                             {{target, "<target>"}});
}

std::string CompilerOf(const std::string& target) {
  return std::string(ProfileOfTarget(target).family);
}

std::string TargetsText(const std::vector<std::string>& targets) {
  if (targets.size() <= kTargetsShown) return absl::StrJoin(targets, ", ");
  const auto end = targets.begin() + kTargetsShown;
  return absl::StrCat(absl::StrJoin(targets.begin(), end, ", "), " and ",
                      targets.size() - kTargetsShown, " more targets");
}

// The place at a message's front, as in "softmax.cu:12: 'softmax' is ...".
std::string LeadingPlace(absl::string_view message) {
  const size_t end = message.find(": ");
  if (end == absl::string_view::npos) return "";
  const absl::string_view place = message.substr(0, end);
  return absl::StrContains(place, ' ') || absl::StrContains(place, '\n') ? "" : std::string(place);
}

}  // namespace

CheckFindings::Finding* CheckFindings::Find(const std::string& key) {
  const auto found = std::find_if(findings_.begin(), findings_.end(),
                                  [&](const Finding& finding) { return finding.key == key; });
  return found == findings_.end() ? nullptr : &*found;
}

void CheckFindings::AddAt(const std::string& where, const std::string& message,
                          v1::CheckSeverity severity) {
  MutexLock lock(mutex_);
  if (severity == v1::CHECK_SEVERITY_ERROR) ++errors_;
  const std::string key = absl::StrCat(where, " ", message);
  if (Find(key) != nullptr || findings_.size() == kFindingsMax) return;
  Finding finding{.key = key, .where = where, .message = message, .severity = severity};
  if (where.empty()) {
    finding.where = LeadingPlace(message);
    finding.message = message.substr(finding.where.empty() ? 0 : finding.where.size() + 2);
  }
  findings_.push_back(std::move(finding));
}

void CheckFindings::AddCompile(const std::string& target, const std::string& variant,
                               const std::string& message) {
  MutexLock lock(mutex_);
  ++errors_;
  const std::string key = KeyOf(target, message);
  const std::string compiler = CompilerOf(target);
  Finding* finding = Find(key);
  if (finding == nullptr) {
    if (findings_.size() == kFindingsMax) return;
    finding = &findings_.emplace_back(Finding{.key = key,
                                              .message = message,
                                              .severity = v1::CHECK_SEVERITY_ERROR,
                                              .first_variant = variant});
    finding->compilers.insert(compiler);
  } else if (finding->compilers.insert(compiler).second) {
    // Another compiler of the same line: its words may help.
    const absl::string_view error = FirstError(message);
    if (!error.empty() && !absl::StrContains(finding->message, error)) {
      absl::StrAppend(&finding->message, absl::EndsWith(finding->message, "\n") ? "" : "\n", "for ",
                      target, ": ", error, "\n");
    }
  }
  if (finding->targets.empty() || finding->targets.back() != target) {
    finding->targets.push_back(target);
    finding->variants_of_target = 0;
  }
  if (variant != "reference" && finding->first_config.empty()) finding->first_config = variant;
  finding->variants = std::max(finding->variants, ++finding->variants_of_target);
}

uint64_t CheckFindings::errors() const {
  MutexLock lock(mutex_);
  return errors_;
}

// "sm_80, sm_90a: reference, BLOCK=32 and 3 more configs".
std::string CheckFindings::WhereOf(const Finding& finding) {
  if (!finding.where.empty()) return finding.where;
  std::vector<std::string> variants;
  if (!finding.first_variant.empty()) variants.push_back(finding.first_variant);
  if (finding.first_variant == "reference" && !finding.first_config.empty()) {
    variants.push_back(finding.first_config);
  }
  std::string where = TargetsText(finding.targets);
  if (variants.empty()) return where;
  absl::StrAppend(&where, finding.targets.size() > 1 ? ": " : " ", absl::StrJoin(variants, ", "));
  if (finding.variants > variants.size()) {
    const uint64_t left = finding.variants - variants.size();
    absl::StrAppend(&where, " and ", Counted(left, "more config"));
  }
  return where;
}

// The message; of a finding of several targets without the name of the first one in the problem, as
// in "kernel 'c', n=64 f32, cpu: the default config ...".
std::string CheckFindings::MessageOf(const Finding& finding) {
  if (finding.targets.size() < 2) return finding.message;
  return absl::StrReplaceAll(finding.message,
                             {{absl::StrCat(", ", finding.targets.front(), ": "), ": "}});
}

void CheckFindings::Write(v1::CheckKernelResponse& response) const {
  MutexLock lock(mutex_);
  for (const Finding& finding : findings_) {
    v1::CheckFinding* proto = response.add_findings();
    proto->set_where(Utf8(WhereOf(finding)));
    proto->set_message(Utf8(MessageOf(finding)));
    proto->set_severity(finding.severity);
    for (const std::string& target : finding.targets) proto->add_targets(target);
    proto->set_variants(finding.variants);
  }
}

}  // namespace tune::server
