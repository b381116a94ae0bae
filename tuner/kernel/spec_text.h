// SPDX-License-Identifier: Apache-2.0
// The text of a spec: protobuf text format that remembers where each field stands. Internal to
// tuner/kernel.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/text_format.h"
#include "tune/v1/kernel.pb.h"

namespace tune {

// Where a message stands in a spec. Errors point at one of its fields.
class SpecPlace {
 public:
  using Tree = google::protobuf::TextFormat::ParseInfoTree;

  SpecPlace(const std::string& spec_name, const google::protobuf::Message& message,
            const Tree* tree)
      : spec_name_(spec_name), descriptor_(message.GetDescriptor()), tree_(tree) {}

  const std::string& spec_name() const { return spec_name_; }

  // The message in a field; `index` for repeated ones.
  SpecPlace Nested(const char* field, int index = -1) const;

  // INVALID_ARGUMENT: "softmax.textproto:12:9: launch.grid[0]: <message>". Points at the start of
  // the message the field belongs to if the field is not there.
  absl::Status Error(const char* field, int index, absl::string_view message) const;
  absl::Status Error(const char* field, absl::string_view message) const {
    return Error(field, -1, message);
  }

 private:
  struct Location {
    int line = 0;  // from 0
    int column = 0;
  };
  Location LocationOf(const char* field, int index) const;
  std::string PathOf(const char* field, int index) const;

  std::string spec_name_;
  const google::protobuf::Descriptor* descriptor_;
  const Tree* tree_;  // null if the message is not there
  Location start_;
  std::string path_;
};

// INVALID_ARGUMENT with line and column if the text is no spec.
absl::Status ParseSpecText(const std::string& spec_name, const std::string& spec_text,
                           v1::KernelSpec* spec, SpecPlace::Tree* tree);

// The same text for the same spec, however it was written.
std::string CanonicalText(const v1::KernelSpec& spec);

}  // namespace tune
