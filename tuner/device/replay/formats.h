// SPDX-License-Identifier: Apache-2.0
// Recordings as files: other people's formats and ours. Text in, text out; opens nothing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/device/replay/recording.h"

namespace tune::replay {

// kNeutral: a JSON file that describes the space and a CSV file with a row for each config.
// kKernelTuner: a cache file, also one that a running Kernel Tuner has not closed yet.
// kT4: the results format of the auto-tuning community (github.com/odgaard/TuningSchema).
// All are described in docs/replay.md.
enum class RecordingFormat { kNeutral, kKernelTuner, kT4 };

using tune::ToText;  // which the next would hide
// "neutral", "kernel-tuner", "t4".
std::string ToText(RecordingFormat format);
// INVALID_ARGUMENT names the formats there are.
absl::StatusOr<RecordingFormat> ParseFormat(absl::string_view text);

struct RecordingFile {
  std::string name;     // without its folder
  std::string content;  // as on disk: gzip is recognised
};

inline constexpr size_t kMaxRecordingBytes = size_t{512} << 20;  // of one file, unpacked

// Reads a recording from all of its files: one for a cache or results file, two for the neutral
// form. A space definition of Kernel Tuner's (T1) may stand beside either of the first two: it
// gives the params their full lists of values, and the constraints.
//
// INVALID_ARGUMENT says in which file, and where, it is no recording.
absl::StatusOr<Recording> ReadRecording(const std::vector<RecordingFile>& files);

// The files of a recording, the describing one first, with names that start with `stem`.
std::vector<RecordingFile> WriteRecording(const Recording& recording, RecordingFormat format,
                                          const std::string& stem);

}  // namespace tune::replay
