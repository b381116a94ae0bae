// SPDX-License-Identifier: Apache-2.0
// The sweeps behind the records, as grids of shapes, from which a look-up chooses a config if the
// problem itself was not tuned. A daemon makes those of the store's records when these are read or
// published, so that no look-up waits for the store. Grids that ship are read when they are first
// asked, and a command that answers one question makes only those that it asks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lookup/expectation.h"
#include "lookup/index.h"
#include "lookup/record.h"
#include "server/records/shipped_records.h"
#include "tuner/transfer/launch_sizes.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::server {

// The sweeps of a kernel's current source on a device in a dtype, equal in the dims that must be.
struct DeviceGrid {
  std::string kernel_name;
  std::string kernel_hash;
  std::string target;
  std::string device_name;
  DType dtype = DType::kF32;
  std::vector<std::pair<std::string, int64_t>> fixed;  // dims that must be equal, by name
  ShapeGrid grid;
  std::vector<lookup::RecordPtr> records;  // of grid.shapes
};

class LazyGrid;

// The number of records whose sweeps answer for other shapes: each is a read of the store when the
// daemon starts.
inline constexpr size_t kGridRecordsMax = 512;

// Immutable. Thread-safe.
class ShapeGrids {
 public:
  // Reads the fastest configs of a record's sweep, at most the given number; none: only its winner
  // is known.
  using ReadSweep = std::function<absl::StatusOr<std::vector<lookup::TimedConfig>>(
      const lookup::Record&, uint32_t)>;

  struct Sources {
    ReadSweep read;
    // The launches of a record's kernel at its problem; null: not known.
    std::function<std::shared_ptr<LaunchSizes>(const lookup::Record&)> launches;
    // The grid that ships with records, if it does; null: no grid does.
    std::function<std::optional<ShapeGrid>(const ShippedRecords::GridKey&)> shipped;
  };

  // Builds from records of the kernels' current sources, newest first; records beyond
  // kGridRecordsMax do not count. Each grid is made when it is first asked, from the sources, which
  // must live as long.
  static std::shared_ptr<const ShapeGrids> Build(const std::vector<lookup::RecordPtr>& records,
                                                 const std::vector<lookup::KernelPolicy>& policies,
                                                 const Sources& sources);
  // Adds a newer record, with the result that Build has for all: drops grids of the kernel's older
  // sources and the oldest records beyond kGridRecordsMax. Shares the grids that stay the same.
  std::shared_ptr<const ShapeGrids> With(const lookup::RecordPtr& record,
                                         const std::vector<lookup::KernelPolicy>& policies,
                                         const Sources& sources) const;

  // The grids that may answer for a problem. They live as long as this. REQUIRES: the query has a
  // kernel hash.
  std::vector<lookup::SpeakingGrid> Speaking(const lookup::Query& query,
                                             const lookup::KernelPolicy& policy) const;

  // All grids, by kernel and key. Makes those that are not made yet.
  std::vector<std::shared_ptr<const DeviceGrid>> All() const;
  // Makes the grids that need the store, so that no look-up waits for it.
  void MakeThoseOfStore() const;

 private:
  // The grids of a family, by device. The family's key has all other parts.
  using Family = std::map<std::string, std::shared_ptr<const LazyGrid>>;

  using Policies = std::map<std::string, const lookup::KernelPolicy*>;  // by kernel

  void DropOlderSources(const lookup::KernelPolicy& policy);
  size_t RecordCount() const;
  void DropOldest(const Policies& policies, const Sources& sources);
  void Add(const lookup::RecordPtr& record, const lookup::KernelPolicy& policy,
           const Sources& sources);

  std::map<std::string, Family> families_;
};

}  // namespace tune::server
