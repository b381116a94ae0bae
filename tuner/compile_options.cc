// SPDX-License-Identifier: Apache-2.0
#include "tuner/compile_options.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tuner/device_profile.h"

namespace tune {
namespace {

constexpr std::array<absl::string_view, 18> kWords = {
    "--use_fast_math",  "--ftz=true",       "--ftz=false",          "--prec-div=true",
    "--prec-div=false", "--prec-sqrt=true", "--prec-sqrt=false",    "--fmad=true",
    "--fmad=false",     "--std=c++17",      "--std=c++20",          "--extra-device-vectorization",
    "--restrict",       "-default-device",  "--generate-line-info", "-lineinfo",
    "--minimal",        kNoAsserts,
};

struct NumberedOption {
  absl::string_view prefix;
  int32_t least;
  int32_t most;
};

constexpr std::array<NumberedOption, 2> kNumbered = {{
    {"--maxrregcount=", 16, 255},
    {"--ptxas-options=--register-usage-level=", 0, 10},
}};

}  // namespace

bool IsAllowedNvrtcOption(const std::string& option) {
  if (std::find(kWords.begin(), kWords.end(), option) != kWords.end()) return true;
  for (const NumberedOption& numbered : kNumbered) {
    absl::string_view digits = option;
    int32_t number = 0;
    if (!absl::ConsumePrefix(&digits, numbered.prefix) || digits.empty() || digits.size() > 3 ||
        digits.find_first_not_of("0123456789") != absl::string_view::npos ||
        !absl::SimpleAtoi(digits, &number)) {
      continue;
    }
    return number >= numbered.least && number <= numbered.most;
  }
  return false;
}

std::string AllowedNvrtcOptions() {
  return absl::StrCat(absl::StrJoin(kWords, ", "),
                      ", --maxrregcount=16..255, --ptxas-options=--register-usage-level=0..10");
}

std::string WhyNotAllowedOption(const std::string& option, const std::string& target) {
  if (ProfileOfTarget(target).is_host) {
    if (option == "-DNDEBUG") return "";  // NVRTC's word for it too
    return absl::StrCat("option '", option,
                        "' is not allowed: kernels for the CPU device are "
                        "compiled without options of their own");
  }
  if (IsAllowedNvrtcOption(option)) return "";
  return absl::StrCat("option '", option, "' is not allowed; allowed: ", AllowedNvrtcOptions());
}

}  // namespace tune
