// SPDX-License-Identifier: Apache-2.0
// A config: one point of a kernel's space.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "tuner/value.h"

namespace tune {

// Every param of a kernel with its value, in the spec's order.
struct Config {
  std::vector<std::pair<std::string, Value>> entries;

  friend bool operator==(const Config&, const Config&) = default;
};
TUNE_FIELDS(Config, entries);

// "BLOCK_M=64 STAGES=2": canonical, so equal configs of one kernel have equal text.
std::string ToText(const Config& config);

}  // namespace tune
