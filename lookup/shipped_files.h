// SPDX-License-Identifier: Apache-2.0
// The files of records that ship (kernels/records/): snapshots of one device each, compressed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tune::lookup {

// How the names of a device's files end: of its records, and of the sweeps behind them.
inline constexpr char kRecordsFile[] = ".records.json.gz";
inline constexpr char kSweepsFile[] = ".sweeps.json.gz";

struct ShippedFile {
  std::string path;
  std::string bytes;  // as they lie there

  absl::StatusOr<std::string> Text() const;
  // All before its grids, as a snapshot without any; that takes a quarter of the time.
  absl::StatusOr<std::string> TextWithoutGrids() const;
};

// INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<ShippedFile> ReadShippedFile(const std::string& path);
// The files of a folder, by name; empty if the folder does not exist.
absl::StatusOr<std::vector<ShippedFile>> ReadShippedFiles(const std::string& folder,
                                                          absl::string_view ending);

}  // namespace tune::lookup
