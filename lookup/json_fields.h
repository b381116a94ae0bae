// SPDX-License-Identifier: Apache-2.0
// Reads the members of a snapshot's JSON. Errors are INVALID_ARGUMENT and name the member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tune::lookup {

using Json = nlohmann::ordered_json;

inline constexpr size_t kMembersMax = 512;  // of a list: dims, params, steps

// Members of an object by their kinds; what is missing or of another kind is remembered.
class Fields {
 public:
  Fields(const Json& json, const char* what) : json_(json), what_(what) {}

  const Json& Member(const char* name) {
    static const Json kNull;
    if (!json_.is_object()) return Fail(name), kNull;
    const auto found = json_.find(name);
    return found == json_.end() ? (Fail(name), kNull) : *found;
  }
  std::string Text(const char* name) {
    const Json& member = Member(name);
    return member.is_string() ? member.get<std::string>() : (Fail(name), "");
  }
  int64_t Integer(const char* name) { return Integer(Member(name), name); }
  int64_t Integer(const Json& json, const char* name) {
    const bool fits =
        json.is_number_integer() &&
        (!json.is_number_unsigned() ||
         json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    return fits ? json.get<int64_t>() : (Fail(name), 0);
  }
  double Number(const char* name) {
    const Json& member = Member(name);
    return member.is_number() ? member.get<double>() : (Fail(name), 0);
  }
  bool Boolean(const char* name) {
    const Json& member = Member(name);
    return member.is_boolean() ? member.get<bool>() : (Fail(name), false);
  }
  const Json& Object(const char* name) {
    const Json& member = Member(name);
    if (!member.is_object()) Fail(name);
    return member;
  }
  // Each element of an array, by `read(element)`.
  template <typename Read>
  void List(const char* name, size_t most, Read read) {
    const Json& member = Member(name);
    if (!member.is_array() || member.size() > most) return Fail(name);
    for (const Json& element : member) read(element);
  }
  std::vector<std::string> Texts(const char* name) {
    std::vector<std::string> texts;
    List(name, kMembersMax, [&](const Json& one) {
      if (one.is_string()) return texts.push_back(one.get<std::string>());
      Fail(name);
    });
    return texts;
  }
  void Fail(const char* name) {
    if (status_.ok())
      status_ = absl::InvalidArgumentError(absl::StrCat(what_, " has no usable '", name, "'"));
  }
  void Fail(const absl::Status& status) { status_.Update(status); }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  const char* const what_;
  absl::Status status_;
};

// Empty where there is no such text.
inline std::string TextIn(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace tune::lookup
