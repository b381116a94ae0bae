// SPDX-License-Identifier: Apache-2.0
#include "client/dim_flags.h"

#include <fmt/format.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tune::client {
namespace {

absl::StatusOr<int64_t> ParseSize(const std::string& name, const std::string& text) {
  static constexpr std::pair<const char*, int64_t> kSuffixes[] = {
      {"Ki", 1 << 10}, {"Mi", 1 << 20},  {"Gi", 1 << 30},
      {"k", 1'000},    {"M", 1'000'000}, {"G", 1'000'000'000}};
  absl::string_view digits = text;
  int64_t factor = 1;
  for (const auto& [suffix, value] : kSuffixes) {
    if (absl::ConsumeSuffix(&digits, suffix)) {
      factor = value;
      break;
    }
  }
  int64_t value = 0;
  int64_t size = 0;
  if (!absl::SimpleAtoi(digits, &value) || __builtin_mul_overflow(value, factor, &size)) {
    return absl::InvalidArgumentError(
        fmt::format("--{} '{}': neither a flag of this command nor a dim, which needs an integer "
                    "such as 4096, 4k or 4Ki; --help lists the flags",
                    name, text));
  }
  return size;
}

}  // namespace

absl::StatusOr<SplitArguments> SplitDims(const std::vector<std::string>& arguments,
                                         const std::set<std::string>& known_names) {
  SplitArguments split;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "--") || argument.empty()) {
      split.known.push_back(arguments[i]);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name(argument.substr(0, equals));
    if (known_names.count(name) > 0) {
      split.known.push_back(arguments[i]);
      continue;
    }
    std::string value;
    if (equals != absl::string_view::npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (i + 1 < arguments.size() && !absl::StartsWith(arguments[i + 1], "--")) {
      value = arguments[++i];
    } else {
      return absl::InvalidArgumentError(fmt::format("--{} needs a value", name));
    }
    if (!split.dims.emplace(name, value).second) {
      return absl::InvalidArgumentError(fmt::format("--{} is given twice", name));
    }
  }
  return split;
}

absl::StatusOr<std::map<std::string, int64_t>> ParseDims(
    const std::map<std::string, std::string>& dims) {
  std::map<std::string, int64_t> parsed;
  for (const auto& [name, text] : dims) {
    absl::StatusOr<int64_t> value = ParseSize(name, text);
    if (!value.ok()) return value.status();
    parsed[name] = *value;
  }
  return parsed;
}

std::string DimHelp(const v1::KernelSpec& spec) {
  std::string text;
  for (const v1::Dim& dim : spec.dims()) {
    std::string defaults = absl::StrCat("default ", dim.default_value());
    for (const v1::DimOn& on : dim.on()) {
      absl::StrAppend(&defaults, "; on ", on.target(), " ", on.default_value());
    }
    absl::StrAppend(
        &text, fmt::format("  {:<24}{} ({})\n", "--" + dim.name() + " INT", dim.doc(), defaults));
  }
  return text;
}

}  // namespace tune::client
