// SPDX-License-Identifier: Apache-2.0
#include "tuner/spelling.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tuner/device_profile.h"

namespace tune {

std::string DeviceIdOf(absl::string_view text) {
  const absl::string_view family = text.substr(0, text.find(':'));
  const absl::string_view rest = text.substr(family.size());
  const bool is_index = rest.empty() || rest.find_first_not_of("0123456789", 1) == rest.npos;
  for (const DeviceProfile* profile : DeviceProfiles()) {
    if (is_index && absl::EqualsIgnoreCase(family, profile->family)) {
      return absl::StrCat(profile->family, rest);
    }
  }
  return std::string(text);
}

}  // namespace tune
