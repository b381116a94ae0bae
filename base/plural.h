// SPDX-License-Identifier: Apache-2.0
// Counts with their noun, for messages.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tune {

// "1 trial", "2 trials". `many` is for nouns whose plural is not `one` with an s.
template <typename Integer>
std::string Counted(Integer count, absl::string_view one, absl::string_view many = "") {
  if (count == 1) return absl::StrCat("1 ", one);
  return many.empty() ? absl::StrCat(count, " ", one, "s") : absl::StrCat(count, " ", many);
}

}  // namespace tune
