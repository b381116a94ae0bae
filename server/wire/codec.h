// SPDX-License-Identifier: Apache-2.0
// Nouns to messages and back, by the list of a noun's fields (base/fields.h). Each field of the
// noun goes to the field of the message that has its name. A converter fills in what the message
// has besides.
//
// Out: a number is clamped to the width of its field. Text is made UTF-8 (server/wire/utf8.h).
// In: a number that does not fit is INVALID_ARGUMENT. So is an enum value that does not exist.
// Unspecified (0) is refused too, unless the noun's field starts with it. An element of a list, a
// map or an optional starts with nothing, so 0 is refused there. A message that is not set leaves
// the noun of its field as it was.
//
// A pair is a message; its fields 1 and 2 are the two. A variant is a message with a field for each
// alternative, numbered in their order from 1. A list whose field is not repeated is a message,
// and the list is its field 1: so a list can be missing.
//
//   const auto proto = Encoded<v1::Ceiling>(ceiling);
//   ASSIGN_OR_RETURN(Ceiling read, Decoded<Ceiling>(proto));
#pragma once

#include <google/protobuf/message.h>

#include <concepts>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <limits>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/fields.h"
#include "base/status_macros.h"
#include "tuner/problem.h"
#include "tuner/value.h"

namespace tune::server {
namespace wire {

using google::protobuf::Message;
using Place = google::protobuf::FieldDescriptor;  // where a message keeps a field
using Names = std::initializer_list<absl::string_view>;

// Sets a field to a value. If the field is repeated, adds the value.
void Put(Message& message, const Place& place, bool value);
void Put(Message& message, const Place& place, int64_t value);  // enums too
void Put(Message& message, const Place& place, uint64_t value);
void Put(Message& message, const Place& place, double value);
void Put(Message& message, const Place& place, const std::string& value);
Message& PutMessage(Message& message, const Place& place);
void PutValue(Message& message, const Value& value);  // tune.v1.Value

// Reads the element at `index` of a repeated field, else the only value.
bool GetBool(const Message& message, const Place& place, int index);
double GetReal(const Message& message, const Place& place, int index);
std::string GetText(const Message& message, const Place& place, int index);
// The value must be within low..high; an enum's must exist.
absl::StatusOr<int64_t> GetInteger(const Message& message, const Place& place, int index,
                                   int64_t low, int64_t high, bool zero_is_value = true);
absl::StatusOr<uint64_t> GetUnsigned(const Message& message, const Place& place, int index);
const Message& GetMessage(const Message& message, const Place& place, int index);
absl::StatusOr<Value> GetValue(const Message& message);  // tune.v1.Value
int CountOf(const Message& message, const Place& place);
bool IsSet(const Message& message, const Place& place);
const Place& PlaceAt(const Message& message, int number);
bool IsText(const Place& place);
absl::Status WrongCount(const Place& place, int count);
absl::Status NothingSet(const Message& message);

// The place of each name; null for those left out. Dies of one that the message does not have.
std::vector<const Place*> FindPlaces(const google::protobuf::Descriptor& message,
                                     const std::vector<const char*>& names, Names left_out);

struct KnownPlaces {
  const google::protobuf::Descriptor* message;
  std::vector<absl::string_view> left_out;
  std::vector<const Place*> places;  // of the noun's fields, in their order
};
// Dies where others are left out than the first time.
void CheckLeftOut(const KnownPlaces& known, Names left_out);

// Found once for each kind of message. REQUIRES: the same `left_out` each time, of names that last
// as long as the process.
template <typename Noun>
const std::vector<const Place*>& PlacesOf(const Message& message, Names left_out) {
  thread_local std::deque<KnownPlaces> all;
  for (const KnownPlaces& known : all) {
    if (known.message != message.GetDescriptor()) continue;
    CheckLeftOut(known, left_out);
    return known.places;
  }
  std::vector<const char*> names;
  Noun noun;
  ForEachField(noun, [&](const char* name, const auto&) { names.push_back(name); });
  all.push_back({message.GetDescriptor(),
                 {left_out.begin(), left_out.end()},
                 FindPlaces(*message.GetDescriptor(), names, left_out)});
  return all.back().places;
}

template <typename T>
concept Pair = requires(T pair) {
  pair.first;
  pair.second;
};
template <typename T>
concept Map = requires {
  typename T::mapped_type;
};
template <typename T>
concept Range = std::ranges::range<T> && !std::same_as<T, std::string>;
template <typename T>
concept Optional = requires(T value) {
  value.has_value();
  value.emplace();
};
template <typename T>
concept Variant = requires(T value) {
  value.valueless_by_exception();
};

}  // namespace wire

// Into a message that is empty, or has nothing in these fields.
template <typename Noun>
void Encode(const Noun& noun, google::protobuf::Message& message, wire::Names left_out = {});
// Into a noun as it starts.
template <typename Noun>
absl::Status Decode(const google::protobuf::Message& message, Noun& noun,
                    wire::Names left_out = {});

template <typename Proto, typename Noun>
Proto Encoded(const Noun& noun, wire::Names left_out = {}) {
  Proto proto;
  Encode(noun, proto, left_out);
  return proto;
}

template <typename Noun>
absl::StatusOr<Noun> Decoded(const google::protobuf::Message& message, wire::Names left_out = {}) {
  Noun noun;
  RETURN_IF_ERROR(Decode(message, noun, left_out));
  return noun;
}

namespace wire {

template <typename T>
void Write(const T& value, Message& message, const Place& place) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, double> || std::same_as<T, std::string>) {
    Put(message, place, value);
  } else if constexpr (std::same_as<T, DType>) {
    IsText(place) ? Put(message, place, ToText(value))
                  : Put(message, place, static_cast<int64_t>(value));
  } else if constexpr (std::unsigned_integral<T>) {
    Put(message, place, uint64_t{value});
  } else if constexpr (std::integral<T> || std::is_enum_v<T>) {
    Put(message, place, static_cast<int64_t>(value));
  } else if constexpr (std::same_as<T, Value>) {
    PutValue(PutMessage(message, place), value);
  } else if constexpr (Optional<T>) {
    if (value.has_value()) Write(*value, message, place);
  } else if constexpr (Variant<T>) {
    Message& kind = PutMessage(message, place);
    std::visit(
        [&](const auto& held) {
          Encode(held, PutMessage(kind, PlaceAt(kind, static_cast<int>(value.index()) + 1)));
        },
        value);
  } else if constexpr (Range<T>) {
    if (!place.is_repeated()) {
      Message& list = PutMessage(message, place);
      return Write(value, list, PlaceAt(list, 1));
    }
    for (const auto& element : value) Write(element, message, place);
  } else if constexpr (Pair<T>) {
    Message& pair = PutMessage(message, place);
    Write(value.first, pair, PlaceAt(pair, 1));
    Write(value.second, pair, PlaceAt(pair, 2));
  } else {
    Encode(value, PutMessage(message, place));
  }
}

// The kind of target of a read: a noun's field starts with a value, a list's element with none.
enum class Into { kField, kElement };

template <typename T>
absl::Status Read(const Message& message, const Place& place, int index, T& value, Into into);

template <typename T>
absl::Status ReadAll(const Message& message, const Place& place, T& values) {
  const int count = CountOf(message, place);
  if constexpr (requires { values.clear(); }) {
    values.clear();
  } else if (count != static_cast<int>(values.size())) {
    return WrongCount(place, count);
  }
  for (int i = 0; i < count; ++i) {
    if constexpr (Map<T>) {
      std::pair<typename T::key_type, typename T::mapped_type> entry{};
      RETURN_IF_ERROR(Read(message, place, i, entry, Into::kElement));
      values.insert(std::move(entry));
    } else if constexpr (requires { values.emplace_back(); }) {
      RETURN_IF_ERROR(Read(message, place, i, values.emplace_back(), Into::kElement));
    } else {
      RETURN_IF_ERROR(Read(message, place, i, values[static_cast<size_t>(i)], Into::kElement));
    }
  }
  return absl::OkStatus();
}

// Into the alternative of a variant whose place in `message` is set.
template <size_t kIndex = 0, typename T>
absl::Status ReadHeld(const Message& message, T& value) {
  if constexpr (kIndex == std::variant_size_v<T>) {
    return NothingSet(message);
  } else {
    const Place& place = PlaceAt(message, kIndex + 1);
    if (!IsSet(message, place)) return ReadHeld<kIndex + 1>(message, value);
    return Decode(GetMessage(message, place, -1), value.template emplace<kIndex>());
  }
}

template <typename T>
absl::Status Read(const Message& message, const Place& place, int index, T& value, Into into) {
  if constexpr (std::same_as<T, bool>) {
    value = GetBool(message, place, index);
  } else if constexpr (std::same_as<T, double>) {
    value = GetReal(message, place, index);
  } else if constexpr (std::same_as<T, std::string>) {
    value = GetText(message, place, index);
  } else if constexpr (std::same_as<T, uint64_t>) {
    ASSIGN_OR_RETURN(value, GetUnsigned(message, place, index));
  } else if constexpr (std::is_enum_v<T>) {
    if constexpr (std::same_as<T, DType>) {
      if (IsText(place)) {
        ASSIGN_OR_RETURN(value, ParseDType(GetText(message, place, index)));
        return absl::OkStatus();
      }
    }
    const bool starts_as_zero = into == Into::kField && static_cast<int>(value) == 0;
    const bool zero_is_value = starts_as_zero || std::same_as<T, DType>;
    ASSIGN_OR_RETURN(const int64_t number,
                     GetInteger(message, place, index, INT32_MIN, INT32_MAX, zero_is_value));
    value = static_cast<T>(number);
  } else if constexpr (std::integral<T>) {
    ASSIGN_OR_RETURN(const int64_t number,
                     GetInteger(message, place, index, std::numeric_limits<T>::min(),
                                std::numeric_limits<T>::max()));
    value = static_cast<T>(number);
  } else if constexpr (std::same_as<T, Value>) {
    ASSIGN_OR_RETURN(value, GetValue(GetMessage(message, place, index)));
  } else if constexpr (Optional<T>) {
    value.reset();
    if (IsSet(message, place)) return Read(message, place, index, value.emplace(), Into::kElement);
  } else if constexpr (Variant<T>) {
    return ReadHeld(GetMessage(message, place, index), value);
  } else if constexpr (Range<T>) {
    if (place.is_repeated()) return ReadAll(message, place, value);
    const Message& list = GetMessage(message, place, index);
    return ReadAll(list, PlaceAt(list, 1), value);
  } else if constexpr (Pair<T>) {
    const Message& pair = GetMessage(message, place, index);
    RETURN_IF_ERROR(Read(pair, PlaceAt(pair, 1), -1, value.first, Into::kElement));
    return Read(pair, PlaceAt(pair, 2), -1, value.second, Into::kElement);
  } else {
    if (index < 0 && !IsSet(message, place)) return absl::OkStatus();
    return Decode(GetMessage(message, place, index), value);
  }
  return absl::OkStatus();
}

}  // namespace wire

template <typename Noun>
void Encode(const Noun& noun, google::protobuf::Message& message, wire::Names left_out) {
  auto place = wire::PlacesOf<Noun>(message, left_out).begin();
  ForEachField(noun, [&](const char*, const auto& value) {
    if (*place != nullptr) wire::Write(value, message, **place);
    ++place;
  });
}

template <typename Noun>
absl::Status Decode(const google::protobuf::Message& message, Noun& noun, wire::Names left_out) {
  auto place = wire::PlacesOf<Noun>(message, left_out).begin();
  absl::Status status;
  ForEachField(noun, [&](const char*, auto& value) {
    if (*place != nullptr && status.ok()) {
      status = wire::Read(message, **place, -1, value, wire::Into::kField);
    }
    ++place;
  });
  return status;
}

}  // namespace tune::server
