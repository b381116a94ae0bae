// SPDX-License-Identifier: Apache-2.0
#include "tuner/value.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace tune {
namespace {

// Shortest text that reads back as the same number; always recognisable as a float.
std::string FloatText(double value) {
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string ToText(const Value& value) {
  if (const bool* boolean = std::get_if<bool>(&value)) return *boolean ? "True" : "False";
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return absl::StrCat(*integer);
  if (const double* real = std::get_if<double>(&value)) return FloatText(*real);
  return std::get<std::string>(value);
}

std::string ToMacro(const Value& value) {
  if (const bool* boolean = std::get_if<bool>(&value)) return *boolean ? "1" : "0";
  return ToText(value);
}

std::string ToPython(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? absl::StrCat("'", *text, "'") : ToText(value);
}

}  // namespace tune
