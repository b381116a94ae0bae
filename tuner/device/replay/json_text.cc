// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/replay/json_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tune::replay {
namespace {

// Replaces the bare words NaN, Infinity and -Infinity by null. Lines stay what they were.
std::string WithoutPythonNumbers(absl::string_view text) {
  std::string out(text);
  bool in_string = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '"') in_string = !in_string;
    if (in_string) {
      if (out[i] == '\\') ++i;
      continue;
    }
    if (out[i] != 'N' && out[i] != 'I' && out[i] != '-') continue;
    for (const absl::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (!absl::StartsWith(absl::string_view(out).substr(i), word)) continue;
      out.replace(i, word.size(), "null");
      i += 3;
      break;
    }
  }
  return out;
}

// Errors of nlohmann's parser without exceptions.
class FirstError : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    position_ = position;
    return false;
  }
  size_t position() const { return position_; }

 private:
  size_t position_ = 0;
};

absl::Status NotJson(const std::string& text) {
  FirstError error;
  Json::sax_parse(text, &error);
  const size_t end = std::min(error.position(), text.size());
  const size_t line = std::count(text.begin(), text.begin() + end, '\n') + 1;
  return absl::InvalidArgumentError(absl::StrCat("not JSON from line ", line, " on"));
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text) {
  const std::string cleaned = WithoutPythonNumbers(text);
  Json json = Json::parse(cleaned, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return NotJson(cleaned);
  return json;
}

std::optional<Value> ToValue(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return std::nullopt;
}

Json ToJson(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Value ValueFromText(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text == "True" || text == "true") return true;
  if (text == "False" || text == "false") return false;
  int64_t integer = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  double real = 0;
  if (absl::SimpleAtod(text, &real) && std::isfinite(real)) return real;
  return std::string(text);
}

const Json& Member(const Json& object, const char* name) {
  static const Json& null = *new Json();
  if (!object.is_object()) return null;
  const auto it = object.find(name);
  return it == object.end() ? null : *it;
}

double NumberOr(const Json& json, double otherwise) {
  return json.is_number() ? json.get<double>() : otherwise;
}

std::string TextOr(const Json& json, const std::string& otherwise) {
  return json.is_string() ? json.get<std::string>() : otherwise;
}

std::string ProblemText(const Json& json) {
  if (json.is_array()) {
    return absl::StrJoin(json, " ", [](std::string* out, const Json& size) {
      absl::StrAppend(out, ProblemText(size));
    });
  }
  const std::optional<Value> value = ToValue(json);
  return value ? ToText(*value) : "";
}

double StandardDeviation(const Json& numbers) {
  if (!numbers.is_array()) return 0;
  double sum = 0;
  double count = 0;
  for (const Json& number : numbers) {
    if (!number.is_number()) continue;
    sum += number.get<double>();
    ++count;
  }
  if (count < 2) return 0;
  const double mean = sum / count;
  double squares = 0;
  for (const Json& number : numbers) {
    if (number.is_number()) squares += std::pow(number.get<double>() - mean, 2);
  }
  return std::sqrt(squares / (count - 1));
}

}  // namespace tune::replay
