// SPDX-License-Identifier: Apache-2.0
#include "tuner/bundle.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tune {
namespace {

// No cubin, shared object or PTX begins so.
constexpr absl::string_view kMagic = "tune-bundle\n";
constexpr size_t kLengthDigits = 16;

}  // namespace

std::string Bundle(const std::vector<std::string>& binaries) {
  if (binaries.size() == 1) return binaries[0];
  std::string bundle(kMagic);
  for (const std::string& binary : binaries) {
    absl::StrAppend(&bundle, absl::Hex(uint64_t{binary.size()}, absl::kZeroPad16), binary);
  }
  return bundle;
}

absl::StatusOr<std::vector<absl::string_view>> Unbundle(absl::string_view binary) {
  if (!absl::ConsumePrefix(&binary, kMagic)) return std::vector<absl::string_view>{binary};
  std::vector<absl::string_view> binaries;
  while (!binary.empty()) {
    uint64_t length = 0;
    if (!absl::SimpleHexAtoi(binary.substr(0, kLengthDigits), &length) ||
        binary.size() < kLengthDigits || length > binary.size() - kLengthDigits) {
      return absl::InvalidArgumentError("a bundle of binaries that is cut");
    }
    binaries.push_back(binary.substr(kLengthDigits, length));
    binary.remove_prefix(kLengthDigits + length);
  }
  return binaries;
}

}  // namespace tune
