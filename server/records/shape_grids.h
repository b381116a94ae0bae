// SPDX-License-Identifier: Apache-2.0
// The sweeps behind the records, as grids of shapes: what a look-up chooses from where nobody tuned
// the problem itself. Made when records are read or published, never by a look-up.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/records/lookup/index.h"
#include "tuner/fields.h"
#include "tuner/transfer/shape_grid.h"

namespace tune::server {

// What an expected loss rests on. Values are those of the wire.
enum class Basis { kNothing = 0, kMeasured = 1, kNeighbours = 2, kSibling = 3 };

struct Neighbour {
  std::vector<std::pair<std::string, int64_t>> dims;  // those that may differ
  double weight = 0;
  double loss = 0;  // of the answer's config there; what an unknown one counts as
};
TUNE_FIELDS(Neighbour, dims, weight, loss);

// What an answer's config is expected to lose against the best there would be. Shares.
struct Expectation {
  Basis basis = Basis::kNothing;
  double loss = 0;
  double loss_low = 0;  // nine of ten lie between
  double loss_high = 0;
  std::vector<Neighbour> neighbours;
  bool chosen_between = false;  // by the grid
};
TUNE_FIELDS(Expectation, basis, loss, loss_low, loss_high, neighbours, chosen_between);

// Of a device to another of its target: as much, but with more doubt.
void MakeSibling(Expectation& expectation);

// One kernel's current source on one device in one dtype, and equal in the dims that must be.
struct DeviceGrid {
  std::string kernel_name;
  std::string kernel_hash;
  std::string target;
  std::string device_name;
  DType dtype = DType::kF32;
  std::vector<std::pair<std::string, int64_t>> fixed;  // dims that must be equal, by name
  ShapeGrid grid;
  std::vector<LookupIndex::Record> records;  // of grid.shapes
};

// What a grid says of a problem.
struct GridAnswer {
  const DeviceGrid* grid = nullptr;
  LookupIndex::Record nearest;
  const Config* config = nullptr;
  Expectation expectation;
};

// How many records speak for other shapes: each is a read of the store when the daemon starts.
inline constexpr size_t kGridRecordsMax = 512;

// Immutable. Thread-safe.
class ShapeGrids {
 public:
  // The fastest configs of a key, as Store::FastestOfKey.
  using ReadSweep =
      std::function<absl::StatusOr<std::vector<db::TimedConfig>>(const db::TrialKey&, uint32_t)>;

  // Of records of the kernels' current sources, newest first; more than kGridRecordsMax do not
  // count.
  static std::shared_ptr<const ShapeGrids> Build(const std::vector<LookupIndex::Record>& records,
                                                 const std::vector<KernelPolicy>& policies,
                                                 const ReadSweep& read);
  // The same and a newer record. Shares all grids but the record's.
  std::shared_ptr<const ShapeGrids> With(const LookupIndex::Record& record,
                                         const KernelPolicy& policy, const ReadSweep& read) const;

  // The config to take for a problem, by the device's sweeps, else by those of the device of the
  // target with the most shapes. Nothing if `accept` takes none of their configs. REQUIRES: the
  // query has a kernel hash.
  std::optional<GridAnswer> Choose(const LookupQuery& query, const KernelPolicy& policy,
                                   AcceptConfig accept) const;
  // What a config is expected to lose, by the device's sweeps.
  std::optional<Expectation> Expect(const LookupQuery& query, const KernelPolicy& policy,
                                    const Config& config) const;

  // By kernel and key.
  std::vector<std::shared_ptr<const DeviceGrid>> All() const;

 private:
  // All but the device, then the device.
  using Family = std::map<std::string, std::shared_ptr<const DeviceGrid>>;

  void Add(const LookupIndex::Record& record, const KernelPolicy& policy, const ReadSweep& read);

  std::map<std::string, Family> families_;
};

}  // namespace tune::server
