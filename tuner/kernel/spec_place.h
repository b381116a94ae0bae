// SPDX-License-Identifier: Apache-2.0
// The place of a part of a spec in its text, so that an error can point at one of its fields.
// Internal to tuner/kernel.
//
//   const SpecPlace dim = SpecPlace(text).Nested("dims", 1);
//   return dim.Error("name", "taken twice");  // "k.textproto:7:8: dims[1].name: taken twice"
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tuner/kernel/kernel_spec.h"

namespace tune {

class SpecPlace {
 public:
  // The whole spec. `text` must outlive this and all places in it.
  explicit SpecPlace(const SpecText& text) : text_(&text) {}

  const std::string& spec_name() const { return text_->name; }

  // The part in a field; `index` if the field is a list.
  SpecPlace Nested(absl::string_view field, int index = -1) const;

  // INVALID_ARGUMENT: "softmax.textproto:12:9: launch.grid[0]: <message>". Points at the start of
  // the part that the field belongs to if the field is not there. Without the place if the text has
  // no name.
  absl::Status Error(absl::string_view field, int index, absl::string_view message) const;
  absl::Status Error(absl::string_view field, absl::string_view message) const {
    return Error(field, -1, message);
  }

 private:
  std::string PathOf(absl::string_view field, int index) const;
  SpecText::Position PositionOf(absl::string_view field, int index) const;

  const SpecText* text_;
  SpecText::Position start_;
  std::string path_;
};

}  // namespace tune
