// SPDX-License-Identifier: Apache-2.0
// Reads nouns straight from a message's bytes, by the list of a noun's fields as in codec.h, where
// reading is so frequent that parsing the message first would cost more than all else. A missing
// field leaves the noun's default. An enum value that does not exist, or a number that does not
// fit, is an error.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>

#include <concepts>
#include <cstdint>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/fields.h"
#include "server/wire/codec.h"
#include "tuner/problem.h"
#include "tuner/value.h"

namespace tune::server::wire {

using Input = google::protobuf::io::CodedInputStream;

inline int NumberOf(uint32_t tag) { return static_cast<int>(tag >> 3); }
inline bool HasLength(uint32_t tag) { return (tag & 7) == 2; }

// Each returns false if the bytes hold no such field.
bool ReadNumber(Input& input, uint32_t tag, uint64_t& value);
bool ReadReal(Input& input, uint32_t tag, double& value);
bool ReadReals(Input& input, uint32_t tag, std::vector<double>& values);  // one field of them all
bool ReadText(Input& input, uint32_t tag, std::string& value);
bool ReadDType(Input& input, uint32_t tag, DType& value);
bool ReadValue(Input& input, uint32_t tag, Value& value);  // a tune.v1.Value
bool Skip(Input& input, uint32_t tag);
// Reads the length of a field, all of whose bytes are there.
bool ReadLength(Input& input, uint32_t tag, int& bytes);
bool Exists(const Place& of_enum, uint64_t value);

// Calls read(input, tag) for each field of a message that is a field itself.
template <typename Read>
bool ReadMessage(Input& input, uint32_t tag, Read&& read) {
  int bytes = 0;
  if (!ReadLength(input, tag, bytes)) return false;
  const Input::Limit limit = input.PushLimit(bytes);
  while (const uint32_t inner = input.ReadTag()) {
    if (!read(input, inner)) return false;
  }
  const bool whole = input.ConsumedEntireMessage();
  input.PopLimit(limit);
  return whole;
}

// Calls read(input, tag) for each field of a top-level message.
template <typename Read>
bool ReadWhole(absl::string_view bytes, Read&& read) {
  const int size = static_cast<int>(bytes.size());
  Input input(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  input.PushLimit(size);
  while (const uint32_t tag = input.ReadTag()) {
    if (!read(input, tag)) return false;
  }
  return input.ConsumedEntireMessage();
}

// The positions of a noun's fields in a message.
struct NumberedPlaces {
  struct One {
    const Place* place = nullptr;  // null: not one of the noun's
    size_t index = 0;              // in the noun's list
  };
  const google::protobuf::Descriptor* message;
  std::vector<One> by_number;

  const One* Find(int number) const {
    const auto at = static_cast<size_t>(number);
    return at < by_number.size() && by_number[at].place != nullptr ? &by_number[at] : nullptr;
  }
};
NumberedPlaces NumberPlaces(const google::protobuf::Descriptor& message,
                            const std::vector<const char*>& names, Names left_out);

// Cached for each kind of message. REQUIRES: the same `left_out` each time.
template <typename Noun>
const NumberedPlaces& NumberedPlacesOf(const google::protobuf::Descriptor& message,
                                       Names left_out = {}) {
  thread_local std::deque<NumberedPlaces> all;
  for (const NumberedPlaces& known : all) {
    if (known.message == &message) return known;
  }
  std::vector<const char*> names;
  Noun noun;
  ForEachField(noun, [&](const char* name, const auto&) { names.push_back(name); });
  all.push_back(NumberPlaces(message, names, left_out));
  return all.back();
}

// Most lists that are read have a few elements.
inline constexpr size_t kReserved = 8;

enum class FieldRead { kNotOurs, kDone, kWrong };
template <typename Noun>
FieldRead ReadField(Input& input, uint32_t tag, const NumberedPlaces& places, Noun& noun);

template <typename T>
bool ReadOne(Input& input, uint32_t tag, const Place& place, T& value) {
  if constexpr (std::same_as<T, double>) {
    return ReadReal(input, tag, value);
  } else if constexpr (std::same_as<T, std::string>) {
    return ReadText(input, tag, value);
  } else if constexpr (std::same_as<T, DType>) {
    return ReadDType(input, tag, value);
  } else if constexpr (std::same_as<T, Value>) {
    return ReadValue(input, tag, value);
  } else if constexpr (std::is_enum_v<T>) {
    uint64_t number = 0;
    if (!ReadNumber(input, tag, number) || !Exists(place, number)) return false;
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::integral<T>) {
    uint64_t number = 0;
    if (!ReadNumber(input, tag, number)) return false;
    value = static_cast<T>(number);
    return static_cast<uint64_t>(value) == number;
  } else if constexpr (Range<T>) {
    if constexpr (std::same_as<T, std::vector<double>>) {
      if (HasLength(tag)) return ReadReals(input, tag, value);
    }
    if (value.empty()) value.reserve(kReserved);
    return ReadOne(input, tag, place, value.emplace_back());
  } else if constexpr (Pair<T>) {
    return ReadMessage(input, tag, [&](Input&, uint32_t inner) {
      if (NumberOf(inner) == 1) return ReadOne(input, inner, place, value.first);
      return NumberOf(inner) == 2 ? ReadOne(input, inner, place, value.second) : Skip(input, inner);
    });
  } else {
    const NumberedPlaces& places = NumberedPlacesOf<T>(*place.message_type());
    return ReadMessage(input, tag, [&](Input&, uint32_t inner) {
      const FieldRead read = ReadField(input, inner, places, value);
      return read == FieldRead::kNotOurs ? Skip(input, inner) : read == FieldRead::kDone;
    });
  }
}

// Reads the field if it is one of the noun's.
template <typename Noun>
FieldRead ReadField(Input& input, uint32_t tag, const NumberedPlaces& places, Noun& noun) {
  const NumberedPlaces::One* const one = places.Find(NumberOf(tag));
  if (one == nullptr) return FieldRead::kNotOurs;
  size_t index = 0;
  bool done = false;
  ForEachField(noun, [&](const char*, auto& value) {
    if (index++ == one->index) done = ReadOne(input, tag, *one->place, value);
  });
  return done ? FieldRead::kDone : FieldRead::kWrong;
}

}  // namespace tune::server::wire
