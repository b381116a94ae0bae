// SPDX-License-Identifier: Apache-2.0
#include "tests/server/fuzz/request_maker.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/test_server.h"

namespace tune::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kDepthMax = 6;
constexpr size_t kFieldsMax = 4000;

template <typename T, size_t count>
const T& One(Choices& choices, const std::array<T, count>& values) {
  return values[choices.Below(count)];
}

}  // namespace

Choices::Choices(const uint8_t* bytes, size_t size)
    : bytes_(bytes), left_(size), state_(0x9e3779b97f4a7c15 + size) {}

uint64_t Choices::Word() {
  if (left_ > 0) {
    // Small choices take a byte each, so that a fuzzer's changes stay local.
    const uint64_t byte = *bytes_++;
    --left_;
    state_ = (state_ ^ byte) * 0xbf58476d1ce4e5b9;
    return byte;
  }
  // SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
  uint64_t x = state_ += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::string RequestMaker::Make(const google::protobuf::Descriptor& type) {
  fields_left_ = kFieldsMax;
  const std::unique_ptr<Message> message(factory_.GetPrototype(&type)->New());
  Fill(*message, 0);
  return message->SerializePartialAsString();
}

void RequestMaker::Fill(Message& message, int depth) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (fields_left_ == 0 || choices_.OneIn(3)) continue;
    uint64_t count = 1;
    if (field.is_repeated()) count = choices_.OneIn(40) ? choices_.Below(500) : choices_.Below(4);
    for (uint64_t j = 0; j < count && fields_left_ > 0; ++j) SetField(message, field, depth);
  }
}

uint64_t RequestMaker::Integer() {
  static constexpr std::array<uint64_t, 16> kNotable = {0,
                                                        1,
                                                        2,
                                                        3,
                                                        7,
                                                        8,
                                                        50,
                                                        1000,
                                                        1001,
                                                        65535,
                                                        1u << 31,
                                                        uint64_t{1} << 36,
                                                        uint64_t{1} << 40,
                                                        uint64_t{1} << 62,
                                                        std::numeric_limits<uint64_t>::max(),
                                                        static_cast<uint64_t>(-7)};
  return choices_.OneIn(3) ? choices_.Word() : One(choices_, kNotable);
}

double RequestMaker::Number() {
  static constexpr std::array<double, 9> kNotable = {0,
                                                     1,
                                                     -1,
                                                     0.01,
                                                     1e-300,
                                                     1e300,
                                                     std::numeric_limits<double>::infinity(),
                                                     std::numeric_limits<double>::quiet_NaN(),
                                                     4096};
  return One(choices_, kNotable);
}

std::string RequestMaker::Text(const std::string& field) {
  static const std::array<std::string, 24> kNotable = {
      "",          "softmax",
      "cpu",       "any",
      "cuda:0",    "alice/scale",
      "scale",     "rows",
      "cols",      "n",
      "THREADS",   "ITEMS",
      "f32",       "bf16",
      "sm_90a",    "random",
      "x",         "../../etc/passwd",
      "a b\nc",    "sha256:0000000000000000000000000000000000000000000000000000000000000000",
      "\xc3\xa9",  "2 ** 62",
      "[1, 2, 4]", "alice"};
  const v1::KernelSource scale = ScaleKernel();
  if (field == "spec_text" && !choices_.OneIn(4)) {
    std::string text = scale.spec_text();
    for (uint64_t i = choices_.Below(3); i > 0; --i) {
      const size_t at = choices_.Below(text.size());
      const size_t from = choices_.Below(text.size());
      text.replace(at, choices_.Below(40), text.substr(from, choices_.Below(200)));
    }
    return text;
  }
  if (field == "definition_json" && !choices_.OneIn(4)) {
    std::string constraint = "A*B<64";
    for (uint64_t i = choices_.Below(50); i > 0; --i) {
      static const std::array<std::string, 6> kParts = {"<2",      "+A*B", " and A",
                                                        " or B>1", "%7",   "**2"};
      absl::StrAppend(&constraint, One(choices_, kParts));
    }
    std::string values = "1";
    for (uint64_t i = choices_.OneIn(10) ? 5000 : 8; i > 0; --i) absl::StrAppend(&values, ",", i);
    return absl::StrCat("{\"tune_params\":{\"A\":[", values, "],\"B\":[", values,
                        "]},\"restrictions\":[\"", constraint, "\"]}");
  }
  if (choices_.OneIn(50)) return std::string(choices_.Below(100'000), 'x');
  return One(choices_, kNotable);
}

void RequestMaker::SetField(Message& message, const FieldDescriptor& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  --fields_left_;
  const auto set = [&](auto setter, auto adder, auto value) {
    if (field.is_repeated()) {
      (reflection.*adder)(&message, &field, value);
    } else {
      (reflection.*setter)(&message, &field, value);
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set(&Reflection::SetInt32, &Reflection::AddInt32, static_cast<int32_t>(Integer()));
    case FieldDescriptor::CPPTYPE_INT64:
      return set(&Reflection::SetInt64, &Reflection::AddInt64, static_cast<int64_t>(Integer()));
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(&Reflection::SetUInt32, &Reflection::AddUInt32, static_cast<uint32_t>(Integer()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(&Reflection::SetUInt64, &Reflection::AddUInt64, Integer());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(&Reflection::SetDouble, &Reflection::AddDouble, Number());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(Number()));
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(&Reflection::SetBool, &Reflection::AddBool, choices_.OneIn(2));
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(&Reflection::SetEnumValue, &Reflection::AddEnumValue,
                 static_cast<int>(choices_.Below(12)));
    case FieldDescriptor::CPPTYPE_STRING: {
      const bool is_file = field.message_type() == nullptr && field.name() == "value" &&
                           absl::EndsWith(field.containing_type()->name(), "FilesEntry");
      std::string text =
          is_file ? ScaleKernel().files().begin()->second : Text(std::string(field.name()));
      if (field.name() == "key" && absl::EndsWith(field.containing_type()->name(), "FilesEntry")) {
        text = "scale.cu";
      }
      if (field.is_repeated()) {
        reflection.AddString(&message, &field, std::move(text));
      } else {
        reflection.SetString(&message, &field, std::move(text));
      }
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth == kDepthMax) return;
      return Fill(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                      : *reflection.MutableMessage(&message, &field),
                  depth + 1);
  }
}

}  // namespace tune::server
