// SPDX-License-Identifier: Apache-2.0
#include "server/artifacts/processor_features.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace tune::server {
namespace {

// The features of x86 that compilers make code of, by how their names begin, since families grow.
constexpr absl::string_view kFamilies[] = {
    "3dnow",    "abm",  "adx",  "aes",   "amx",  "avx",     "bmi",    "cx16", "f16c",   "fma",
    "fsgsbase", "gfni", "lahf", "movbe", "mmx",  "movdir",  "pclmul", "pni",  "popcnt", "rdrand",
    "sha_ni",   "sse",  "ssse", "tbm",   "vaes", "vpclmul", "xop",    "xsave"};

bool MakesCode(absl::string_view feature) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](absl::string_view family) { return absl::StartsWith(feature, family); });
}

}  // namespace

std::vector<std::string> ProcessorFeaturesIn(absl::string_view cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(entry.first);
    const bool is_x86 = key == "flags";
    if (!is_x86 && key != "Features") continue;  // Arm's, where each is of instructions
    std::set<std::string> features;
    for (const absl::string_view one :
         absl::StrSplit(entry.second, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
      if (!is_x86 || MakesCode(one)) features.insert(std::string(one));
    }
    return {features.begin(), features.end()};
  }
  return {};
}

std::vector<std::string> ProcessorFeatures() {
  std::ifstream file("/proc/cpuinfo", std::ios::binary);
  return ProcessorFeaturesIn(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace tune::server
