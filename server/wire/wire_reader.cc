// SPDX-License-Identifier: Apache-2.0
#include "server/wire/wire_reader.h"

#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstring>

#include "absl/status/statusor.h"

namespace tune::server::wire {
namespace {

using Format = google::protobuf::internal::WireFormatLite;

bool Is(uint32_t tag, Format::WireType type) { return Format::GetTagWireType(tag) == type; }

bool ReadBits(Input& input, double& value) {
  uint64_t bits = 0;
  if (!input.ReadLittleEndian64(&bits)) return false;
  std::memcpy(&value, &bits, sizeof(value));
  return true;
}

}  // namespace

bool ReadNumber(Input& input, uint32_t tag, uint64_t& value) {
  return Is(tag, Format::WIRETYPE_VARINT) && input.ReadVarint64(&value);
}

bool ReadReal(Input& input, uint32_t tag, double& value) {
  return Is(tag, Format::WIRETYPE_FIXED64) && ReadBits(input, value);
}

bool ReadReals(Input& input, uint32_t tag, std::vector<double>& values) {
  int bytes = 0;
  if (!ReadLength(input, tag, bytes) || bytes % sizeof(double) != 0) return false;
  for (size_t left = static_cast<size_t>(bytes) / sizeof(double); left > 0; --left) {
    if (!ReadBits(input, values.emplace_back())) return false;
  }
  return true;
}

bool ReadText(Input& input, uint32_t tag, std::string& value) {
  int bytes = 0;
  return ReadLength(input, tag, bytes) && input.ReadString(&value, bytes);
}

bool ReadDType(Input& input, uint32_t tag, DType& value) {
  std::string text;
  if (!ReadText(input, tag, text)) return false;
  const absl::StatusOr<DType> parsed = ParseDType(text);
  if (parsed.ok()) value = *parsed;
  return parsed.ok();
}

bool ReadValue(Input& input, uint32_t tag, Value& value) {
  return ReadMessage(input, tag, [&](Input&, uint32_t inner) {
    uint64_t number = 0;
    switch (NumberOf(inner)) {
      case 1:
        if (!ReadNumber(input, inner, number)) return false;
        value = static_cast<int64_t>(number);
        return true;
      case 2:
        return ReadReal(input, inner, value.emplace<double>());
      case 3:
        return ReadText(input, inner, value.emplace<std::string>());
      case 4:
        if (!ReadNumber(input, inner, number)) return false;
        value = number != 0;
        return true;
      default:
        return Skip(input, inner);
    }
  });
}

bool Skip(Input& input, uint32_t tag) { return Format::SkipField(&input, tag); }

bool ReadLength(Input& input, uint32_t tag, int& bytes) {
  uint32_t length = 0;
  if (!Is(tag, Format::WIRETYPE_LENGTH_DELIMITED) || !input.ReadVarint32(&length)) return false;
  bytes = static_cast<int>(length);
  return bytes >= 0 && bytes <= input.BytesUntilLimit();
}

bool Exists(const Place& of_enum, uint64_t value) {
  const int number = static_cast<int>(value);
  return static_cast<uint64_t>(number) == value &&
         of_enum.enum_type()->FindValueByNumber(number) != nullptr;
}

NumberedPlaces NumberPlaces(const google::protobuf::Descriptor& message,
                            const std::vector<const char*>& names, Names left_out) {
  NumberedPlaces numbered{.message = &message};
  const std::vector<const Place*> places = FindPlaces(message, names, left_out);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == nullptr) continue;
    const auto number = static_cast<size_t>(places[i]->number());
    numbered.by_number.resize(std::max(numbered.by_number.size(), number + 1));
    numbered.by_number[number] = {places[i], i};
  }
  return numbered;
}

}  // namespace tune::server::wire
