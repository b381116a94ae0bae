// SPDX-License-Identifier: Apache-2.0
// The part of a store (db/store.h) for gates. Gate runs with their legs, and baselines.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/gate.h"
#include "db/kernel_store.h"
#include "db/leg.h"

namespace tune::db {

// Thread-safe.
class GateStore {
 public:
  virtual ~GateStore() = default;

  // Gate runs. A run is added first, under a job that is stored, then its kernels, then the legs of
  // a round of a kernel as they are measured, then the verdicts; all is append-only. Ids grow.
  virtual absl::StatusOr<int64_t> AddGateRun(const GateRunRow& run) = 0;
  virtual absl::StatusOr<GateRunRow> GetGateRun(int64_t id) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<GateRunRow>> ListGateRuns(uint32_t limit,
                                                               int64_t before_id = kNewest) = 0;
  virtual absl::StatusOr<int64_t> AddGateKernel(const GateKernelRow& kernel) = 0;
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernels(int64_t run_id) = 0;
  // The rows of this name in every run, oldest first.
  virtual absl::StatusOr<std::vector<GateKernelRow>> GateKernelsNamed(const std::string& name) = 0;
  virtual absl::Status AddGateVerdicts(const std::vector<GateVerdictRow>& verdicts) = 0;
  virtual absl::StatusOr<std::vector<GateVerdictRow>> GateVerdicts(int64_t run_id) = 0;
  // In the order in which they ran.
  virtual absl::StatusOr<std::vector<LegRow>> GateLegs(int64_t gate_kernel_id) = 0;
  // Stores the kernels, and replaces a baseline's row of each kernel name; all or none. The kernel
  // of a row must be stored, or be one of `kernels`.
  virtual absl::Status SetBaseline(const std::vector<KernelRow>& kernels,
                                   const std::vector<BaselineRow>& rows) = 0;
  // At most `limit` rows by name and kernel, after those two.
  virtual absl::StatusOr<std::vector<BaselineRow>> Baselines(
      uint32_t limit = std::numeric_limits<uint32_t>::max(), const std::string& after_name = "",
      const std::string& after_kernel = "") = 0;
  // Appends legs, all or none. Never changed afterwards.
  virtual absl::Status AppendGateLegs(const std::vector<LegRow>& legs) = 0;
};

}  // namespace tune::db
