// SPDX-License-Identifier: Apache-2.0
// Records that come with the program, measured on devices of its makers: a layer under the store's
// own. kernels/records/ has the files, snapshots of one device each; tools/renew_records writes
// them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lookup/place.h"
#include "lookup/record.h"
#include "lookup/shipped_files.h"
#include "lookup/snapshot_lines.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::server {

// Records of a store are numbered from 1.
inline bool IsShipped(const lookup::Record& record) { return record.id == 0; }

// TUNE_RECORDS_DIR, else share/tunectl/records of the nearest folder above the program that has it.
// Empty: there is none.
std::string ShippedFolder();

// Immutable. Thread-safe. The records of a kernel are read each time they are asked for, and a
// file's grids are unpacked when the first of them is.
class ShippedRecords {
 public:
  // INVALID_ARGUMENT: a file is no snapshot in a daemon's layout.
  static absl::StatusOr<std::shared_ptr<const ShippedRecords>> Open(
      std::vector<lookup::ShippedFile> files);
  // Loads the files of a folder; the folder "" has none. Errors: see Open.
  static absl::StatusOr<std::shared_ptr<const ShippedRecords>> Load(const std::string& folder);

  // All records. Their ids, and those of their sweeps and trials, are 0: they are in no store here.
  // INVALID_ARGUMENT: one is no record, or lacks its measurement.
  absl::StatusOr<std::vector<lookup::Record>> All() const;
  absl::StatusOr<std::vector<lookup::Record>> OfKernel(const std::string& kernel_name) const;
  // The devices of the files: each file's is that of its first record.
  const lookup::SeenDevices& devices() const { return devices_; }

  // Identifies a grid: a record's kernel, source, device and dtype, the dims that must be equal,
  // and its axes.
  struct GridKey {
    const lookup::Record& record;
    const std::vector<std::pair<std::string, int64_t>>& fixed;
    const std::vector<std::string>& axes;
  };
  // The grid as the files have it, or nullopt if they lack it or it cannot be read.
  std::optional<ShapeGrid> GridOf(const GridKey& key) const;

  // Identifies the files.
  std::string Digest() const;

 private:
  struct OfDevice {
    lookup::ShippedFile file;
    std::string device;
    std::string text;  // that the lines point into
    lookup::LinesByKernel lines;
    mutable std::once_flag once;  // of what follows
    mutable std::string whole_text;
    mutable lookup::LinesByKernel whole;
  };
  static const lookup::LinesByKernel& Whole(const OfDevice& one);

  std::vector<std::unique_ptr<OfDevice>> files_;
  lookup::SeenDevices devices_;
};

// The shipped records whose workload has no record in `own`, then `own`.
std::vector<lookup::Record> WithShipped(std::vector<lookup::Record> shipped,
                                        std::vector<lookup::Record> own);

}  // namespace tune::server
