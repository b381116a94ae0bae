// SPDX-License-Identifier: Apache-2.0
// Recordings on disk, to be sent as they are: tunectl knows nothing of what is in them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tune/v1/replay.pb.h"

namespace tune::client {

// The recording at `path`: a .json file, packed or not, with the .csv or .csv.gz of the same name
// beside it if there is one; either of the two names the recording. `definition_path`, if not
// empty, is a T1 file with the params of a cache or of T4 results. INVALID_ARGUMENT: no such file,
// or one of more than 512 MiB.
absl::StatusOr<v1::RecordingSource> ReadRecordingFiles(const std::string& path,
                                                       const std::string& definition_path = "");

// "runs/a" of "runs/a.json", "runs/a.csv.gz" or "runs/a".
std::string RecordingStem(const std::string& path);

enum class Overwrite { kRefuse, kAllow };

// Writes the files into `folder`; each is there whole or not at all. ALREADY_EXISTS names a file
// that is in the way.
absl::Status WriteFiles(const std::string& folder, const std::vector<v1::RecordingFile>& files,
                        Overwrite overwrite);

}  // namespace tune::client
