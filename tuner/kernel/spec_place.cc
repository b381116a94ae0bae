// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/spec_place.h"

#include "absl/strings/str_cat.h"

namespace tune {

SpecPlace SpecPlace::Nested(absl::string_view field, int index) const {
  SpecPlace nested = *this;
  nested.start_ = PositionOf(field, index);
  nested.path_ = PathOf(field, index);
  return nested;
}

absl::Status SpecPlace::Error(absl::string_view field, int index, absl::string_view message) const {
  std::string what = absl::StrCat(PathOf(field, index), ": ", message);
  if (spec_name().empty()) return absl::InvalidArgumentError(what);
  const SpecText::Position position = PositionOf(field, index);
  return absl::InvalidArgumentError(
      absl::StrCat(spec_name(), ":", position.line + 1, ":", position.column + 1, ": ", what));
}

std::string SpecPlace::PathOf(absl::string_view field, int index) const {
  return absl::StrCat(path_, path_.empty() ? "" : ".", field,
                      index < 0 ? "" : absl::StrCat("[", index, "]"));
}

SpecText::Position SpecPlace::PositionOf(absl::string_view field, int index) const {
  const auto& positions = text_->positions;
  auto found = positions.find(PathOf(field, index));
  // A list as a whole, or one in brackets, stands where its first element does.
  if (found == positions.end()) found = positions.find(PathOf(field, 0));
  return found == positions.end() ? start_ : found->second;
}

}  // namespace tune
