// SPDX-License-Identifier: Apache-2.0
#include "client/report/format.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tune::client {
namespace {

// Three to four significant digits.
std::string Short(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 10) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

}  // namespace

std::string LatencyText(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return Short(nanoseconds / 1e3) + " us";
  if (nanoseconds < 1e9) return Short(nanoseconds / 1e6) + " ms";
  return Short(nanoseconds / 1e9) + " s";
}

std::string DurationText(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string BandwidthText(double bytes_per_second) {
  return Short(bytes_per_second / 1e9) + " GB/s";
}

std::string FlopRateText(double flops_per_second) {
  if (flops_per_second < 1e12) return Short(flops_per_second / 1e9) + " GFLOP/s";
  return Short(flops_per_second / 1e12) + " TFLOP/s";
}

std::string BytesText(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string PercentText(double fraction) {
  return fraction < 10 ? fmt::format("{:.1f} %", fraction * 100)
                       : fmt::format("{:.0f} times", fraction);
}

std::string TimeText(int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  const std::time_t seconds = unix_ms / 1000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

std::string ToText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::kInteger:
      return absl::StrCat(value.integer());
    case v1::Value::kReal:
      return fmt::format("{}", value.real());
    case v1::Value::kText:
      return value.text();
    case v1::Value::kBoolean:
      return value.boolean() ? "True" : "False";
    case v1::Value::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string ToText(const v1::Config& config) {
  return absl::StrJoin(config.entries(), " ", [](std::string* out, const v1::ConfigEntry& entry) {
    absl::StrAppend(out, entry.param(), "=", ToText(entry.value()));
  });
}

std::string ToText(const v1::Config& config,
                   const google::protobuf::RepeatedPtrField<std::string>& fixed_params) {
  v1::Config shown;
  for (const v1::ConfigEntry& entry : config.entries()) {
    if (std::find(fixed_params.begin(), fixed_params.end(), entry.param()) != fixed_params.end()) {
      continue;
    }
    *shown.add_entries() = entry;
  }
  return ToText(shown.entries().empty() ? config : shown);
}

std::string ToText(const v1::Problem& problem) {
  std::string text;
  for (const v1::DimValue& dim : problem.dims()) {
    absl::StrAppend(&text, dim.name(), "=", dim.value(), " ");
  }
  return text + problem.dtype();
}

std::string EnumText(const google::protobuf::EnumDescriptor& type, int value) {
  const auto* const named = type.FindValueByNumber(value);
  if (named == nullptr) return "";
  const absl::string_view prefix = absl::StripSuffix(type.value(0)->name(), "UNSPECIFIED");
  return absl::AsciiStrToLower(absl::StripPrefix(named->name(), prefix));
}

std::string StateText(const v1::Sweep& sweep) {
  return sweep.interrupted() ? "interrupted" : ToText(sweep.state());
}

std::string CsvLine(const std::vector<std::string>& cells) {
  const auto append = [](std::string* out, const std::string& cell) {
    const bool plain = cell.find_first_of(",\"\n\r") == std::string::npos;
    absl::StrAppend(
        out, plain ? cell : absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\""));
  };
  return absl::StrCat(absl::StrJoin(cells, ",", append), "\n");
}

std::string TellingLine(const std::string& message) {
  const std::vector<std::string> lines = absl::StrSplit(message, '\n');
  // Compilers begin with where they are: the line with the error says more.
  const auto line = std::find_if(lines.begin(), lines.end(), [](const std::string& text) {
    return absl::StrContains(text, "error");
  });
  if (line == lines.end() || line == lines.begin()) return lines.front();
  // Which side, and with what outcome, stands before the first line.
  const std::string outcome = "_failed: ";
  const size_t place = lines.front().find(outcome);
  if (place == std::string::npos) return *line;
  return absl::StrCat(lines.front().substr(0, place + outcome.size()), *line);
}

std::string LatencyIntervalText(const v1::Measurement& measurement,
                                std::optional<uint32_t> rounds) {
  if (rounds == 1) return "one round, so no interval";
  const std::string span = absl::StrCat(LatencyText(measurement.latency_ns_low()), " to ",
                                        LatencyText(measurement.latency_ns_high()));
  if (!rounds) return absl::StrCat("spread ", span);
  const bool few = *rounds > 1 && *rounds < 6;
  return absl::StrCat(few ? "its rounds are at " : "95 % interval ", span);
}

std::string TooNoisyText(const v1::Measurement& measurement) {
  const double width = measurement.latency_ns_high() - measurement.latency_ns_low();
  const double share = width / measurement.latency_ns_median();
  return absl::StrCat("the host was too noisy to tell how fast it is: the interval is ",
                      PercentText(share), share < 10 ? " of" : "",
                      " the latency wide; sweep again with --fresh when it is quiet");
}

}  // namespace tune::client
