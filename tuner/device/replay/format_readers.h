// SPDX-License-Identifier: Apache-2.0
// The formats of formats.h, one each; and what they share. Internal to tuner/device/replay.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/device/replay/formats.h"
#include "tuner/device/replay/json_text.h"
#include "tuner/device/replay/recording.h"

namespace tune::replay {

inline constexpr double kNsPerMs = 1e6;

// A number that is a time: Kernel Tuner also has huge numbers that stand for failures.
bool IsLatencyMs(double latency_ms);

// Which values the params have and which configs are valid, from a file other than the rows'.
struct Definition {
  std::string kernel;
  std::string problem;
  std::vector<SpaceParam> params;
  std::vector<std::string> constraints;
};

bool IsT1(const Json& json);
absl::StatusOr<Definition> ReadT1(const Json& json);
// A recording must have the params of its definition; their order becomes the definition's.
absl::Status Apply(const Definition& definition, Recording& header);

bool IsNeutral(const Json& json);
absl::StatusOr<Recording> ReadNeutral(const Json& json, absl::string_view csv);
std::vector<RecordingFile> WriteNeutral(const Recording& recording, const std::string& stem);

// A file that a running Kernel Tuner has not closed ends after a row; this closes it.
absl::StatusOr<Json> ParseUnclosedCache(absl::string_view text);
bool IsKernelTunerCache(const Json& json);
absl::StatusOr<Recording> ReadKernelTunerCache(const Json& json, const Definition* definition);
std::string WriteKernelTunerCache(const Recording& recording);

bool IsT4(const Json& json);
// `param_names` in the order they are to have.
absl::StatusOr<Recording> ReadT4(const Json& json, const std::vector<std::string>& param_names,
                                 const Definition* definition);
std::string WriteT4(const Recording& recording);

}  // namespace tune::replay
