// SPDX-License-Identifier: Apache-2.0
#include "client/cli/dim_flags.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tune::client {
namespace {

// "4096" or, as far as a double tells whole numbers apart, "1e6".
std::optional<int64_t> WholeOf(absl::string_view text) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  double real = 0;
  const bool whole = absl::StrContains(text, 'e') && absl::SimpleAtod(text, &real) &&
                     real == std::floor(real) && std::abs(real) <= 0x1p53;
  if (!whole) return std::nullopt;
  return static_cast<int64_t>(real);
}

// "4096", "4k" or "4K" (4000), "4Ki" (4096), "1e6".
std::optional<int64_t> SizeOf(absl::string_view text) {
  static constexpr std::pair<const char*, int64_t> kSuffixes[] = {
      {"Ki", 1 << 10}, {"Mi", 1 << 20},  {"Gi", 1 << 30},     {"k", 1'000},
      {"K", 1'000},    {"M", 1'000'000}, {"G", 1'000'000'000}};
  int64_t factor = 1;
  for (const auto& [suffix, value] : kSuffixes) {
    if (absl::ConsumeSuffix(&text, suffix)) {
      factor = value;
      break;
    }
  }
  const std::optional<int64_t> value = WholeOf(text);
  int64_t size = 0;
  if (!value || __builtin_mul_overflow(*value, factor, &size)) return std::nullopt;
  return size;
}

absl::StatusOr<int64_t> ParseSize(const std::string& name, const std::string& text) {
  if (const std::optional<int64_t> size = SizeOf(text); size) return *size;
  return absl::InvalidArgumentError(
      fmt::format("--{} '{}': the size of a dim is an integer such as 4096, 4k (4000), 4Ki (4096) "
                  "or 1e6; if '{}' is meant as a flag, --help lists those of this command",
                  name, text, name));
}

// From first to last: each twice the one before, or `step` more.
std::vector<int64_t> Steps(int64_t first, int64_t last, std::optional<int64_t> step,
                           size_t values_max) {
  std::vector<int64_t> values;
  for (int64_t value = first; value <= last && values.size() <= values_max;) {
    values.push_back(value);
    const bool overflows = step ? __builtin_add_overflow(value, *step, &value)
                                : __builtin_mul_overflow(value, 2, &value);
    if (overflows) break;
  }
  return values;
}

// The values of a range; empty if the text is none.
std::vector<int64_t> RangeOf(absl::string_view text, size_t values_max) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits("..", 1));
  const std::vector<absl::string_view> tail = absl::StrSplit(ends.second, ':');
  const std::optional<int64_t> first = SizeOf(ends.first);
  const std::optional<int64_t> last = SizeOf(tail[0]);
  const std::optional<int64_t> step = tail.size() == 2 ? SizeOf(tail[1]) : std::nullopt;
  const bool stepped = tail.size() == 2;
  if (!first || !last || *first < 1 || tail.size() > 2) return {};
  if (stepped && (!step || *step < 1)) return {};
  return Steps(*first, *last, step, values_max);
}

std::vector<int64_t> ListOf(absl::string_view text) {
  std::vector<int64_t> values;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<int64_t> value = SizeOf(part);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
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
    ASSIGN_OR_RETURN(parsed[name], ParseSize(name, text));
  }
  return parsed;
}

absl::StatusOr<DimSweep> ParseDimSweep(const std::string& text, size_t values_max) {
  const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  DimSweep sweep{.dim = sides.first};
  sweep.values = absl::StrContains(sides.second, "..") ? RangeOf(sides.second, values_max)
                                                       : ListOf(sides.second);
  if (sweep.dim.empty() || sweep.values.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sweep '", text,
        "': needs a dim and its values: seq=512..16384 (doubling), seq=512..16384:512 (steps), or "
        "seq=512,1024,4096"));
  }
  if (sweep.values.size() <= values_max) return sweep;
  return absl::InvalidArgumentError(
      absl::StrCat("--sweep '", text, "': more than ", values_max, " values"));
}

std::string DimHelp(const v1::KernelSpec& spec) {
  std::string text;
  for (const v1::Dim& dim : spec.dims()) {
    std::string defaults = dim.default_dim().empty()
                               ? absl::StrCat("default ", dim.default_value())
                               : absl::StrCat("default: --", dim.default_dim());
    for (const v1::DimOn& on : dim.on()) {
      absl::StrAppend(&defaults, "; on ", on.target(), " ", on.default_value());
    }
    absl::StrAppend(
        &text, fmt::format("  {:<24}{} ({})\n", "--" + dim.name() + " INT", dim.doc(), defaults));
  }
  return text;
}

}  // namespace tune::client
