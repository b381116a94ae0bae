// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/checker.h"

#include <string.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tune {
namespace {

std::string WhatOf(const TuneFaultSlot& slot) {
  std::string what(slot.what, strnlen(slot.what, sizeof(slot.what)));
  for (char& c : what) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return what;
}

}  // namespace

std::string OutputOfReference(const BufferPlan& wanted) {
  const std::string prefix = ReferenceBufferName("");
  return absl::StartsWith(wanted.name, prefix) ? wanted.name.substr(prefix.size()) : "";
}

std::string DescribeFaults(const TuneFaults& faults) {
  if (faults.count == 0) return "";
  // Threads report faults in any order. If all faults were kept, the first element's is always the
  // same.
  const auto kept = std::min<unsigned long long>(faults.count, TuneFaults::kKept);
  const TuneFaultSlot& first = *std::min_element(
      faults.kept, faults.kept + kept,
      [](const TuneFaultSlot& a, const TuneFaultSlot& b) { return a.index < b.index; });
  std::string text = absl::StrFormat("%d fault%s, at %d: %s", faults.count,
                                     faults.count == 1 ? "" : "s", first.index, WhatOf(first));
  if (first.value != 0 || first.expected != 0) {
    absl::StrAppendFormat(&text, ": %.9g, expected %.9g", first.value, first.expected);
  }
  return text;
}

void AddFaults(const TuneFaults& faults, Verdict& verdict) {
  if (faults.count == 0) return;
  const std::string what = DescribeFaults(faults);
  verdict.error.bad_elements = faults.count;
  verdict.error.worst = what;
  if (!verdict.right) return;
  verdict.right = false;
  verdict.message = absl::StrCat("the checker finds ", what);
}

}  // namespace tune
