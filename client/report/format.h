// SPDX-License-Identifier: Apache-2.0
// Numbers and messages as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/generated_enum_reflection.h"
#include "tune/v1/job.pb.h"
#include "tune/v1/sweep.pb.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {

std::string LatencyText(double nanoseconds);         // "35.2 us"
std::string DurationText(double seconds);            // "12 s", "3 min 20 s"
std::string BandwidthText(double bytes_per_second);  // "3813 GB/s"
std::string FlopRateText(double flops_per_second);   // "618.2 TFLOP/s"
std::string BytesText(double bytes);                 // "139.8 GiB"
std::string PercentText(double fraction);            // "90.1 %", "88 times"
std::string TimeText(int64_t unix_ms);               // "2026-01-31 17:45", local time
std::string ToText(const v1::Value& value);
std::string ToText(const v1::Config& config);  // "BLOCK_M=64 STAGES=2"
// Without those params, which have one possible value; all of them if no other is left.
std::string ToText(const v1::Config& config,
                   const google::protobuf::RepeatedPtrField<std::string>& fixed_params);
std::string ToText(const v1::Problem& problem);  // "rows=8192 cols=4096 bf16"
// The value of an enum without its prefix, in lower case: "wrong_result" of OUTCOME_WRONG_RESULT.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int value);
template <typename Enum>
requires google::protobuf::is_proto_enum<Enum>::value std::string ToText(Enum value) {
  return EnumText(*google::protobuf::GetEnumDescriptor<Enum>(), value);
}

// "12 ok, 3 wrong_result" of a map from outcomes to counts.
template <typename Counts>
std::string CountsText(const Counts& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  });
}

// A line of CSV with its end; cells are quoted as in RFC 4180.
std::string CsvLine(const std::vector<std::string>& cells);

// The state of a sweep: "interrupted", or its job's.
std::string StateText(const v1::Sweep& sweep);

// The line of a compiler's log, or of another message, that says what is wrong: the first with an
// error, else the first. "head: compile_failed: " before a log's first line stays in front of it.
std::string TellingLine(const std::string& message);
// "95 % interval 1.20 us to 1.31 us" of a latency that was measured in so many rounds, or by the
// samples of one process (0 rounds). The order statistics of fewer than six rounds do not reach
// 95 %: "its rounds are at ...". "spread ...", either of these, if their number is not known.
std::string LatencyIntervalText(const v1::Measurement& measurement, std::optional<uint32_t> rounds);
// "the host was too noisy to tell how fast it is: ..." of a figure whose interval is so wide.
std::string TooNoisyText(const v1::Measurement& measurement);

}  // namespace tune::client
