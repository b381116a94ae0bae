// SPDX-License-Identifier: Apache-2.0
// Numbers and messages as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "tune/v1/job.pb.h"
#include "tune/v1/sweep.pb.h"
#include "tune/v1/trial.pb.h"

namespace tune::client {

std::string LatencyText(double nanoseconds);         // "35.2 us"
std::string DurationText(double seconds);            // "12 s", "3 min 20 s"
std::string BandwidthText(double bytes_per_second);  // "3813 GB/s"
std::string FlopRateText(double flops_per_second);   // "618.2 TFLOP/s"
std::string BytesText(double bytes);                 // "139.8 GiB"
std::string PercentText(double fraction);            // "90.1 %"
std::string TimeText(int64_t unix_ms);               // "2026-01-31 17:45", local time
std::string ToText(const v1::Value& value);
std::string ToText(const v1::Config& config);  // "BLOCK_M=64 STAGES=2"
// Without those params, which have one possible value; all of them if no other is left.
std::string ToText(const v1::Config& config,
                   const google::protobuf::RepeatedPtrField<std::string>& fixed_params);
std::string ToText(const v1::Problem& problem);  // "rows=8192 cols=4096 bf16"
std::string ToText(v1::Outcome outcome);         // "wrong_result"
std::string ToText(v1::JobState state);          // "running"
std::string ToText(v1::TrialPurpose purpose);    // "confirm"
std::string ToText(v1::Bound bound);             // "memory"
std::string ToText(v1::CeilingSource source);    // "measured"
std::string ToText(v1::Clock clock);

// The state of a sweep: "interrupted", or its job's.
std::string StateText(const v1::Sweep& sweep);

// "the host was too noisy to tell: ..." of a figure whose interval is so wide.
// The line of a compiler's log, or of another message, that says what is wrong: the first with an
// error, else the first. "head: compile_failed: " before a log's first line stays in front of it.
std::string TellingLine(const std::string& message);
std::string TooNoisyText(const v1::Measurement& measurement);

}  // namespace tune::client
