// SPDX-License-Identifier: Apache-2.0
// Nouns with another value in every field, and what of two nouns differs, by the lists of their
// fields: what maps a noun and drops a field is caught, be the field new or old.
#pragma once

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/fields.h"
#include "tuner/config.h"
#include "tuner/problem.h"

namespace tune {

// Gives every field another value that its type can have, `seed` on. Enums have 2: there is no enum
// without, and none starts with it.
template <typename T>
void FillIn(T& value, int& seed) {
  if constexpr (std::is_same_v<T, bool>) {
    value = true;
  } else if constexpr (std::is_same_v<T, double>) {
    value = ++seed + 0.125;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(2);
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(++seed);
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = absl::StrCat("text ", ++seed);
  } else if constexpr (std::is_same_v<T, Value>) {
    value = int64_t{++seed};
  } else if constexpr (HasFields<T>) {
    ForEachField(value, [&](const char*, auto& field) { FillIn(field, seed); });
  } else if constexpr (requires { value.first; }) {
    FillIn(value.first, seed);
    FillIn(value.second, seed);
  } else if constexpr (requires { value.emplace_back(); }) {
    FillIn(value.emplace_back(), seed);
    FillIn(value.emplace_back(), seed);
  } else if constexpr (requires { std::variant_size<T>::value; }) {
    FillIn(value.template emplace<1>(), seed);
  } else if constexpr (requires { typename T::mapped_type; }) {
    std::pair<typename T::key_type, typename T::mapped_type> entry{};
    FillIn(entry, seed);
    value.insert(entry);
  } else if constexpr (requires { value.emplace(); }) {
    FillIn(value.emplace(), seed);
  } else {
    for (auto& element : value) FillIn(element, seed);
  }
}

template <typename T>
T Distinct(int seed = 0) {
  T noun;
  FillIn(noun, seed);
  return noun;
}

// "measurement.clock": the fields in which they differ.
template <typename T>
void FindDifferences(const T& a, const T& b, const std::string& where,
                     std::vector<std::string>& found) {
  if constexpr (HasFields<T>) {
    ForEachField(a, [&](const char* name, const auto& field) {
      ForEachField(b, [&](const char* other_name, const auto& other) {
        if constexpr (std::is_same_v<decltype(field), decltype(other)>) {
          const std::string inner = absl::StrCat(where, where.empty() ? "" : ".", name);
          if (std::string(name) == other_name) FindDifferences(field, other, inner, found);
        }
      });
    });
  } else if constexpr (requires { a.begin()->first; } || std::is_same_v<T, std::string>) {
    if (!(a == b)) found.push_back(where);
  } else if constexpr (requires { a.begin(); }) {
    if (a.size() != b.size()) return found.push_back(where);
    for (size_t i = 0; i < a.size(); ++i) {
      FindDifferences(a[i], b[i], absl::StrCat(where, "[", i, "]"), found);
    }
  } else if constexpr (requires { a.has_value(); }) {
    if (a.has_value() != b.has_value()) return found.push_back(where);
    if (a.has_value()) FindDifferences(*a, *b, where, found);
  } else if constexpr (requires { a.valueless_by_exception(); } && !std::is_same_v<T, Value>) {
    if (a.index() != b.index()) return found.push_back(where);
    std::visit(
        [&](const auto& held) {
          FindDifferences(held, std::get<std::remove_cvref_t<decltype(held)>>(b), where, found);
        },
        a);
  } else {
    if (!(a == b)) found.push_back(where);
  }
}

template <typename T>
std::vector<std::string> Differences(const T& a, const T& b) {
  std::vector<std::string> found;
  FindDifferences(a, b, "", found);
  return found;
}

}  // namespace tune
