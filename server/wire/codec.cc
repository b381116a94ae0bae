// SPDX-License-Identifier: Apache-2.0
#include "server/wire/codec.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/wire/nouns.h"
#include "server/wire/utf8.h"

namespace tune::server::wire {
namespace {

template <typename To, typename From>
To Clamp(From value) {
  if (std::in_range<To>(value)) return static_cast<To>(value);
  return std::cmp_less(value, 0) ? std::numeric_limits<To>::min() : std::numeric_limits<To>::max();
}

template <typename Integer>
void PutInteger(Message& message, const Place& place, Integer value) {
  const auto* const access = message.GetReflection();
  const bool add = place.is_repeated();
  switch (place.cpp_type()) {
    case Place::CPPTYPE_INT32:
      return add ? access->AddInt32(&message, &place, Clamp<int32_t>(value))
                 : access->SetInt32(&message, &place, Clamp<int32_t>(value));
    case Place::CPPTYPE_UINT32:
      return add ? access->AddUInt32(&message, &place, Clamp<uint32_t>(value))
                 : access->SetUInt32(&message, &place, Clamp<uint32_t>(value));
    case Place::CPPTYPE_INT64:
      return add ? access->AddInt64(&message, &place, Clamp<int64_t>(value))
                 : access->SetInt64(&message, &place, Clamp<int64_t>(value));
    case Place::CPPTYPE_UINT64:
      return add ? access->AddUInt64(&message, &place, Clamp<uint64_t>(value))
                 : access->SetUInt64(&message, &place, Clamp<uint64_t>(value));
    default:
      return add ? access->AddEnumValue(&message, &place, Clamp<int32_t>(value))
                 : access->SetEnumValue(&message, &place, Clamp<int32_t>(value));
  }
}

// Any integer field as int64_t: signed ones as they are, unsigned ones by their bits.
int64_t AnyInteger(const Message& message, const Place& place, int index) {
  const auto* const access = message.GetReflection();
  const bool one = index < 0;
  switch (place.cpp_type()) {
    case Place::CPPTYPE_INT32:
      return one ? access->GetInt32(message, &place)
                 : access->GetRepeatedInt32(message, &place, index);
    case Place::CPPTYPE_UINT32:
      return one ? access->GetUInt32(message, &place)
                 : access->GetRepeatedUInt32(message, &place, index);
    case Place::CPPTYPE_INT64:
      return one ? access->GetInt64(message, &place)
                 : access->GetRepeatedInt64(message, &place, index);
    case Place::CPPTYPE_UINT64:
      return static_cast<int64_t>(one ? access->GetUInt64(message, &place)
                                      : access->GetRepeatedUInt64(message, &place, index));
    default:
      return one ? access->GetEnumValue(message, &place)
                 : access->GetRepeatedEnumValue(message, &place, index);
  }
}

absl::Status CannotBe(const Place& place, const absl::AlphaNum& value) {
  return absl::InvalidArgumentError(absl::StrCat(place.full_name(), " cannot be ", value));
}

}  // namespace

void Put(Message& message, const Place& place, int64_t value) { PutInteger(message, place, value); }

void Put(Message& message, const Place& place, uint64_t value) {
  PutInteger(message, place, value);
}

void Put(Message& message, const Place& place, bool value) {
  const auto* const access = message.GetReflection();
  place.is_repeated() ? access->AddBool(&message, &place, value)
                      : access->SetBool(&message, &place, value);
}

void Put(Message& message, const Place& place, double value) {
  const auto* const access = message.GetReflection();
  place.is_repeated() ? access->AddDouble(&message, &place, value)
                      : access->SetDouble(&message, &place, value);
}

void Put(Message& message, const Place& place, const std::string& value) {
  const auto* const access = message.GetReflection();
  std::string text = place.type() == Place::TYPE_BYTES ? value : Utf8(value);
  place.is_repeated() ? access->AddString(&message, &place, std::move(text))
                      : access->SetString(&message, &place, std::move(text));
}

Message& PutMessage(Message& message, const Place& place) {
  const auto* const access = message.GetReflection();
  return place.is_repeated() ? *access->AddMessage(&message, &place)
                             : *access->MutableMessage(&message, &place);
}

bool GetBool(const Message& message, const Place& place, int index) {
  const auto* const access = message.GetReflection();
  return index < 0 ? access->GetBool(message, &place)
                   : access->GetRepeatedBool(message, &place, index);
}

double GetReal(const Message& message, const Place& place, int index) {
  const auto* const access = message.GetReflection();
  return index < 0 ? access->GetDouble(message, &place)
                   : access->GetRepeatedDouble(message, &place, index);
}

std::string GetText(const Message& message, const Place& place, int index) {
  const auto* const access = message.GetReflection();
  return index < 0 ? access->GetString(message, &place)
                   : access->GetRepeatedString(message, &place, index);
}

absl::StatusOr<int64_t> GetInteger(const Message& message, const Place& place, int index,
                                   int64_t low, int64_t high, bool zero_is_value) {
  const int64_t value = AnyInteger(message, place, index);
  if (place.cpp_type() == Place::CPPTYPE_UINT64 && value < 0) {
    return CannotBe(place, static_cast<uint64_t>(value));
  }
  if (value < low || value > high) return CannotBe(place, value);
  if (place.cpp_type() != Place::CPPTYPE_ENUM) return value;
  const bool exists = place.enum_type()->FindValueByNumber(static_cast<int>(value)) != nullptr;
  if (exists && (value != 0 || zero_is_value)) return value;
  return CannotBe(place, value);
}

absl::StatusOr<uint64_t> GetUnsigned(const Message& message, const Place& place, int index) {
  const int64_t value = AnyInteger(message, place, index);
  if (value < 0 && place.cpp_type() != Place::CPPTYPE_UINT64) return CannotBe(place, value);
  return static_cast<uint64_t>(value);
}

const Message& GetMessage(const Message& message, const Place& place, int index) {
  const auto* const access = message.GetReflection();
  return index < 0 ? access->GetMessage(message, &place)
                   : access->GetRepeatedMessage(message, &place, index);
}

void PutValue(Message& message, const Value& value) {
  static_cast<v1::Value&>(message) = ToProto(value);
}

absl::StatusOr<Value> GetValue(const Message& message) {
  const v1::Value& proto = static_cast<const v1::Value&>(message);
  if (proto.kind_case() != v1::Value::KIND_NOT_SET) return FromProto(proto);
  return absl::InvalidArgumentError("a value without a kind");
}

int CountOf(const Message& message, const Place& place) {
  return message.GetReflection()->FieldSize(message, &place);
}

bool IsSet(const Message& message, const Place& place) {
  return !place.has_presence() || message.GetReflection()->HasField(message, &place);
}

const Place& PlaceAt(const Message& message, int number) {
  return *message.GetDescriptor()->FindFieldByNumber(number);
}

bool IsText(const Place& place) { return place.cpp_type() == Place::CPPTYPE_STRING; }

absl::Status WrongCount(const Place& place, int count) {
  return absl::InvalidArgumentError(
      absl::StrCat(place.full_name(), " cannot have ", count, " elements"));
}

absl::Status NothingSet(const Message& message) {
  return absl::InvalidArgumentError(
      absl::StrCat("a ", message.GetDescriptor()->full_name(), " without a kind"));
}

std::vector<const Place*> FindPlaces(const google::protobuf::Descriptor& message,
                                     const std::vector<const char*>& names, Names left_out) {
  std::vector<const Place*> places;
  for (const char* const name : names) {
    const bool goes = std::find(left_out.begin(), left_out.end(), name) == left_out.end();
    places.push_back(goes ? message.FindFieldByName(name) : nullptr);
    if (!goes || places.back() != nullptr) continue;
    std::fprintf(stderr, "%s lacks a field %s\n", message.full_name().c_str(), name);
    std::abort();
  }
  return places;
}

void CheckLeftOut(const KnownPlaces& known, Names left_out) {
  if (std::equal(known.left_out.begin(), known.left_out.end(), left_out.begin(), left_out.end())) {
    return;
  }
  std::fprintf(stderr, "of %s other fields are left out than before: %s\n",
               known.message->full_name().c_str(), absl::StrJoin(left_out, ", ").c_str());
  std::abort();
}

}  // namespace tune::server::wire
