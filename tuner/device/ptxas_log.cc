// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/ptxas_log.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tune {
namespace {

// The number before `unit` in "Used 32 registers, 1024 bytes smem"; 0 if `unit` is not there.
int64_t NumberBefore(absl::string_view line, absl::string_view unit) {
  size_t end = line.find(unit);
  if (end == absl::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int64_t number = 0;
  return absl::SimpleAtoi(line.substr(begin, end - begin), &number) ? number : 0;
}

}  // namespace

// The lines in question:
//   ptxas info    : Compiling entry function 'softmax' for 'sm_90a'
//   ptxas info    : Function properties for softmax
//   ptxas         .     800 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem
Resources ParsePtxasLog(absl::string_view log, const std::string& entry) {
  Resources resources;
  const std::string opening = absl::StrCat("Compiling entry function '", entry, "' for");
  bool in_entry = false;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, "Compiling entry function")) {
      in_entry = absl::StrContains(line, opening);
    } else if (in_entry && absl::StrContains(line, "bytes stack frame")) {
      resources.stack_bytes = NumberBefore(line, " bytes stack frame");
      resources.spill_bytes =
          NumberBefore(line, " bytes spill stores") + NumberBefore(line, " bytes spill loads");
    } else if (in_entry && absl::StrContains(line, ": Used ")) {
      resources.registers = NumberBefore(line, " registers");
      resources.static_shared_bytes = NumberBefore(line, " bytes smem");
      in_entry = false;
    }
  }
  return resources;
}

}  // namespace tune
