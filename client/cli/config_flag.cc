// SPDX-License-Identifier: Apache-2.0
#include "client/cli/config_flag.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tune::client {
namespace {

v1::Value ParseValue(const std::string& text) {
  v1::Value value;
  int64_t integer = 0;
  double real = 0;
  if (absl::SimpleAtoi(text, &integer)) {
    value.set_integer(integer);
  } else if (text == "True" || text == "true" || text == "False" || text == "false") {
    value.set_boolean(text[0] == 'T' || text[0] == 't');
  } else if (absl::SimpleAtod(text, &real)) {
    value.set_real(real);
  } else {
    value.set_text(text);
  }
  return value;
}

}  // namespace

absl::StatusOr<v1::Config> ParseConfig(const std::string& text) {
  v1::Config config;
  for (absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(" ,"), absl::SkipEmpty())) {
    const std::vector<std::string> sides = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (sides.size() != 2 || sides[0].empty() || sides[1].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--config '", text, "': needs PARAM=VALUE, as in --config 'BLOCK=128 STAGES=2'"));
    }
    v1::ConfigEntry* entry = config.add_entries();
    entry->set_param(sides[0]);
    *entry->mutable_value() = ParseValue(sides[1]);
  }
  return config;
}

}  // namespace tune::client
