// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/spec_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/near_name.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"

namespace tune {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

// The quoted texts of a message.
std::vector<std::string> QuotedIn(const std::string& message) {
  std::vector<std::string> parts = absl::StrSplit(message, '"');
  std::vector<std::string> quoted;
  for (size_t i = 1; i + 1 < parts.size(); i += 2) quoted.push_back(std::move(parts[i]));
  return quoted;
}

// "; it takes ROLE_INPUT, ROLE_OUTPUT": the values of the enum that a field of this name has in a
// message of the spec's file; empty if none has.
std::string ValuesOfField(const std::string& field) {
  const google::protobuf::FileDescriptor& file = *v1::KernelSpec::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const FieldDescriptor* found = file.message_type(i)->FindFieldByName(field);
    if (found == nullptr || found->enum_type() == nullptr) continue;
    std::vector<std::string> values;
    for (int k = 0; k < found->enum_type()->value_count(); ++k) {
      const auto& value = *found->enum_type()->value(k);
      if (value.number() != 0) values.emplace_back(value.name());
    }
    return absl::StrCat("; it takes ", absl::StrJoin(values, ", "));
  }
  return "";
}

std::string NearFieldOf(const std::string& message_type, const std::string& field) {
  const google::protobuf::Descriptor* const type =
      v1::KernelSpec::descriptor()->file()->pool()->FindMessageTypeByName(message_type);
  if (type == nullptr) return "";
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.emplace_back(type->field(i)->name());
  return DidYouMean(field, names);
}

// The parser's message with what the writer of a spec may have meant.
std::string Explained(std::string message) {
  const std::vector<std::string> quoted = QuotedIn(message);
  if (absl::EndsWith(message, ".")) message.pop_back();
  // A number is expected of all fields in a fill's bounds alone.
  if (absl::StartsWith(message, "Expected double, got: \"")) {
    return absl::StrCat(message, "; an expression goes into low_expression or high_expression");
  }
  if (quoted.size() != 2) return message;
  if (absl::StartsWith(message, "Message type ")) {
    return absl::StrCat(message, NearFieldOf(quoted[0], quoted[1]));
  }
  if (absl::StartsWith(message, "Unknown enumeration value of ")) {
    return absl::StrCat(message, ValuesOfField(quoted[1]));
  }
  return message;
}

// Keeps the first error; those after it are mostly its consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(const std::string& spec_name) : spec_name_(spec_name) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!status_.ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(spec_name_, ":", std::max(line, 0) + 1, ":",
                                                std::max(column, 0) + 1, ": ", Explained(message)));
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const absl::Status& status() const { return status_; }

 private:
  const std::string& spec_name_;
  absl::Status status_;
};

}  // namespace

SpecPlace SpecPlace::Nested(const char* field, int index) const {
  SpecPlace nested = *this;
  const FieldDescriptor* descriptor = descriptor_->FindFieldByName(field);
  nested.descriptor_ = descriptor->message_type();
  nested.tree_ = tree_ == nullptr ? nullptr : tree_->GetTreeForNested(descriptor, index);
  nested.start_ = LocationOf(field, index);
  nested.path_ = PathOf(field, index);
  return nested;
}

SpecPlace::Location SpecPlace::LocationOf(const char* field, int index) const {
  if (tree_ == nullptr) return start_;
  const FieldDescriptor* descriptor = descriptor_->FindFieldByName(field);
  if (descriptor->is_repeated()) index = std::max(index, 0);
  TextFormat::ParseLocation location = tree_->GetLocation(descriptor, index);
  // `grid: ["a", "b"]` has one location for all its items.
  if (location.line < 0 && index > 0) location = tree_->GetLocation(descriptor, 0);
  return location.line < 0 ? start_ : Location{location.line, location.column};
}

std::string SpecPlace::PathOf(const char* field, int index) const {
  return absl::StrCat(path_, path_.empty() ? "" : ".", field,
                      index < 0 ? "" : absl::StrCat("[", index, "]"));
}

absl::Status SpecPlace::Error(const char* field, int index, absl::string_view message) const {
  const Location location = LocationOf(field, index);
  return absl::InvalidArgumentError(absl::StrCat(spec_name_, ":", location.line + 1, ":",
                                                 location.column + 1, ": ", PathOf(field, index),
                                                 ": ", message));
}

absl::Status ParseSpecText(const std::string& spec_name, const std::string& spec_text,
                           v1::KernelSpec* spec, SpecPlace::Tree* tree) {
  FirstError errors(spec_name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(tree);
  parser.SetRecursionLimit(16);
  if (!parser.ParseFromString(spec_text, spec)) {
    return errors.status().ok()
               ? absl::InvalidArgumentError(absl::StrCat(spec_name, ":1:1: not a kernel spec"))
               : errors.status();
  }
  // What is not UTF-8 could be parsed from text but never be sent.
  if (!v1::KernelSpec().ParseFromString(spec->SerializeAsString())) {
    return absl::InvalidArgumentError(absl::StrCat(spec_name, ":1:1: a string is not UTF-8"));
  }
  return absl::OkStatus();
}

std::string CanonicalText(const v1::KernelSpec& spec) {
  std::string text;
  TextFormat::Printer printer;
  printer.PrintToString(spec, &text);
  return text;
}

}  // namespace tune
