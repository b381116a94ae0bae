// SPDX-License-Identifier: Apache-2.0
#include "tuner/config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tune {

std::string ToText(const Config& config) {
  return absl::StrJoin(config.entries, " ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first, "=", ToText(entry.second));
  });
}

}  // namespace tune
