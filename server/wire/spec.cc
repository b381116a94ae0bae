// SPDX-License-Identifier: Apache-2.0
#include "server/wire/spec.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/near_name.h"
#include "base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/wire/codec.h"

namespace tune::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr size_t kSpecBytesMax = 1 << 20;

// The quoted texts of a message.
std::vector<std::string> QuotedIn(const std::string& message) {
  std::vector<std::string> parts = absl::StrSplit(message, '"');
  std::vector<std::string> quoted;
  for (size_t i = 1; i + 1 < parts.size(); i += 2) quoted.push_back(std::move(parts[i]));
  return quoted;
}

// "; it takes ROLE_INPUT, ROLE_OUTPUT".
std::string ValuesOf(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> values;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) values.emplace_back(type.value(i)->name());
  }
  return absl::StrCat("; it takes ", absl::StrJoin(values, ", "));
}

// The values of the enum that a field of this name has in some message; empty if none has.
std::string ValuesOfField(const std::string& field) {
  const google::protobuf::FileDescriptor& file = *v1::KernelSpec::descriptor()->file();
  for (int i = 0; i < file.message_type_count(); ++i) {
    const FieldDescriptor* found = file.message_type(i)->FindFieldByName(field);
    if (found != nullptr && found->enum_type() != nullptr) return ValuesOf(*found->enum_type());
  }
  return "";
}

// The value that a text in quotes stands for where no text may: ROLE_OUTPUT for "output".
std::string ValueCalled(const std::string& text) {
  const std::string name = absl::AsciiStrToUpper(text);
  const google::protobuf::FileDescriptor& file = *v1::KernelSpec::descriptor()->file();
  for (int i = 0; i < file.enum_type_count(); ++i) {
    for (int j = 0; j < file.enum_type(i)->value_count(); ++j) {
      const std::string value(file.enum_type(i)->value(j)->name());
      if (value == name || absl::EndsWith(value, "_" + name)) return value;
    }
  }
  return "";
}

std::string NearFieldOf(const std::string& message_type, const std::string& field) {
  const google::protobuf::Descriptor* const type =
      v1::KernelSpec::descriptor()->file()->pool()->FindMessageTypeByName(message_type);
  if (type == nullptr) return "";
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) {
    names.emplace_back(type->field(i)->name());
    // "default" is the first of the message: default_value, not default_dim.
    if (absl::StartsWith(names.back(), field + "_")) {
      return absl::StrCat("; did you mean '", names.back(), "'?");
    }
  }
  return DidYouMean(field, names);
}

// The rest of a line from a value on, to the end of a list in brackets or of a word.
absl::string_view ValueAt(absl::string_view rest) {
  if (!absl::StartsWith(rest, "[")) return rest.substr(0, rest.find_first_of(" \t,;}>#"));
  int depth = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    depth += rest[i] == '[' ? 1 : rest[i] == ']' ? -1 : 0;
    if (depth == 0) return rest.substr(0, i + 1);
  }
  return "";
}

// "; write it in quotes: values: \"[32, 64]\"", of a field whose value should be a text.
std::string InQuotes(absl::string_view line, size_t column) {
  const absl::string_view before =
      absl::StripTrailingAsciiWhitespace(line.substr(0, std::min(column, line.size())));
  const absl::string_view value = ValueAt(line.substr(std::min(column, line.size())));
  const size_t start = before.find_last_of(" \t{");
  if (!absl::EndsWith(before, ":") || value.empty() || absl::StrContains(value, '"')) {
    return "; write it in quotes";
  }
  const absl::string_view field = start == std::string::npos ? before : before.substr(start + 1);
  return absl::StrCat("; write it in quotes: ", field, " \"", value, "\"");
}

// The parser's message with what the writer of a spec may have meant. `line` is the spec's, in
// which the error is at `column`.
std::string Explained(std::string message, absl::string_view line, size_t column) {
  const std::vector<std::string> quoted = QuotedIn(message);
  if (absl::EndsWith(message, ".")) message.pop_back();
  if (absl::StartsWith(message, "Expected string, got: ")) {
    return absl::StrCat(message, InQuotes(line, column));
  }
  // A number is expected of all fields in a fill's bounds alone.
  if (absl::StartsWith(message, "Expected double, got: \"")) {
    return absl::StrCat(message, "; an expression goes into low_expression or high_expression");
  }
  if (message == "Expected \":\", found \"=\"") return message + "; write 'field: value'";
  if (absl::StartsWith(message, "Expected integer or identifier, got: \"") && quoted.size() == 1) {
    const std::string value = ValueCalled(quoted[0]);
    return absl::StrCat(message, "; write ", value.empty() ? "a value" : value, " without quotes");
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
  FirstError(const std::string& spec_name, absl::string_view text)
      : spec_name_(spec_name), lines_(absl::StrSplit(text, '\n')) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!status_.ok()) return;
    const size_t row = std::max(line, 0);
    const std::string explained = Explained(message, row < lines_.size() ? lines_[row] : "",
                                            static_cast<size_t>(std::max(column, 0)));
    status_ = absl::InvalidArgumentError(
        absl::StrCat(spec_name_, ":", row + 1, ":", std::max(column, 0) + 1, ": ", explained));
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  const absl::Status& status() const { return status_; }

 private:
  const std::string& spec_name_;
  const std::vector<absl::string_view> lines_;
  absl::Status status_;
};

// Collects where the fields of a message stand.
class PositionsReader {
 public:
  PositionsReader(const std::string& spec_name, SpecText::Positions& positions)
      : spec_name_(spec_name), positions_(positions) {}

  // INVALID_ARGUMENT if an enum has a number that no value of it has.
  absl::Status Read(const Message& message, const TextFormat::ParseInfoTree& tree,
                    const std::string& path) {
    // All fields of the type: a field that the text sets to zero or "" has a position, too.
    for (int number = 0; number < message.GetDescriptor()->field_count(); ++number) {
      const FieldDescriptor* const field = message.GetDescriptor()->field(number);
      if (field->is_map()) continue;
      const std::string name = absl::StrCat(path, path.empty() ? "" : ".", field->name());
      if (!field->is_repeated()) {
        RETURN_IF_ERROR(ReadField(message, tree, *field, -1, name));
        continue;
      }
      const int count = message.GetReflection()->FieldSize(message, field);
      for (int i = 0; i < std::min(count, kElementsMax); ++i) {
        RETURN_IF_ERROR(ReadField(message, tree, *field, i, absl::StrCat(name, "[", i, "]")));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Kernel::Create refuses longer lists, and points at no element beyond this.
  static constexpr int kElementsMax = 257;

  absl::Status ReadField(const Message& message, const TextFormat::ParseInfoTree& tree,
                         const FieldDescriptor& field, int index, const std::string& path) {
    const TextFormat::ParseLocation location = tree.GetLocation(&field, index);
    if (location.line >= 0) positions_[path] = {location.line, location.column};
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const int value = message.GetReflection()->GetEnumValue(message, &field);  // none is a list
      if (field.enum_type()->FindValueByNumber(value) != nullptr) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(spec_name_, ":", location.line + 1, ":", location.column + 1, ": ", path,
                       ": it cannot be ", value, ValuesOf(*field.enum_type())));
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return absl::OkStatus();
    const TextFormat::ParseInfoTree* const nested = tree.GetTreeForNested(&field, index);
    if (nested == nullptr) return absl::OkStatus();
    return Read(wire::GetMessage(message, field, index), *nested, path);
  }

  const std::string& spec_name_;
  SpecText::Positions& positions_;
};

absl::Status ParseText(const SpecText& text, v1::KernelSpec& proto,
                       TextFormat::ParseInfoTree& tree) {
  FirstError errors(text.name, text.text);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&tree);
  parser.SetRecursionLimit(16);
  if (!parser.ParseFromString(text.text, &proto)) {
    return errors.status().ok()
               ? absl::InvalidArgumentError(absl::StrCat(text.name, ":1:1: not a kernel spec"))
               : errors.status();
  }
  // Text that is not UTF-8 parses, but could never be sent.
  if (!v1::KernelSpec().ParseFromString(proto.SerializeAsString())) {
    return absl::InvalidArgumentError(absl::StrCat(text.name, ":1:1: a string is not UTF-8"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WrittenSpec> ReadSpec(const std::string& spec_name, const std::string& spec_text) {
  if (spec_text.size() > kSpecBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(spec_name, ": the spec has ", spec_text.size(),
                                                   " bytes; the most is ", kSpecBytesMax));
  }
  WrittenSpec written = {.text = {.name = spec_name, .text = spec_text}};
  v1::KernelSpec proto;
  TextFormat::ParseInfoTree tree;
  RETURN_IF_ERROR(ParseText(written.text, proto, tree));
  RETURN_IF_ERROR(PositionsReader(spec_name, written.text.positions).Read(proto, tree, ""));
  RETURN_IF_ERROR(Decode(proto, written.spec));
  TextFormat::Printer().PrintToString(proto, &written.text.canonical);
  return written;
}

absl::StatusOr<std::shared_ptr<const Kernel>> ReadKernel(
    const std::string& spec_name, const std::string& spec_text,
    const std::map<std::string, std::string>& files, const std::optional<std::string>& origin) {
  ASSIGN_OR_RETURN(WrittenSpec written, ReadSpec(spec_name, spec_text));
  return Kernel::Create(std::move(written.spec), written.text, files, origin);
}

v1::KernelSpec ToProto(const KernelSpec& spec) { return Encoded<v1::KernelSpec>(spec); }

}  // namespace tune::server
