// SPDX-License-Identifier: Apache-2.0
// The sweeps behind shipped records, so that a fresh install knows more of a shape than its winner:
// look-ups between shapes and the searches of new sweeps start from them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "lookup/record.h"
#include "lookup/snapshot_lines.h"
#include "tuner/trial_key.h"
#include "tuner/value.h"

namespace tune::server {

// Immutable. Thread-safe.
class ShippedSweeps {
 public:
  struct Param {
    std::string name;
    std::vector<Value> values;
  };
  // A config that was ok. Packed, since there are tens of thousands.
  struct Row {
    float latency_ns = 0;
    uint32_t registers = 0;
    uint32_t static_shared_bytes = 0;
    uint32_t dynamic_shared_bytes = 0;
  };
  struct Sweep {
    TrialKey key;  // without driver and compiler, which the record has
    std::string kernel_name;
    std::vector<Param> params;
    std::vector<Row> rows;         // the fastest first
    std::vector<uint16_t> digits;  // of row i: params.size() of them, places in the params' values

    // The fastest, at most `limit`.
    std::vector<lookup::TimedConfig> Configs(size_t limit) const;
  };

  // Parses the texts of files: snapshots (docs/snapshots.md) with a line for each sweep:
  //
  //   {"kernel": "softmax", "kernel_hash": "1f09...", "device": "NVIDIA H200", "target": "sm_90a",
  //    "dims": {"rows": 16384, "cols": 2048}, "dtype": "bf16",
  //    "params": [["ROW_THREADS", [32, 64]], ["KEEP", ["floats", "async"]]],
  //    "configs": ["BA", "AB"], "latency_tenths": [294555, 120],
  //    "registers": [40, 32], "static_shared_bytes": [0, 0], "dynamic_shared_bytes": [16384, 0]}
  //
  // There is a text for each param, and in it a letter for each config: "A" is the first of the
  // param's values. The fastest config comes first. Its median latency is in tenths of nanoseconds,
  // that of each other is what it takes longer than the one before. Registers are of a thread,
  // shared memory of a block; they may end before the configs do, and what is missing is 0.
  // Measured with cold caches. INVALID_ARGUMENT: a file is no snapshot.
  static absl::StatusOr<std::shared_ptr<const ShippedSweeps>> Parse(std::vector<std::string> texts);
  // Loads the files of a folder; the folder "" has none. INVALID_ARGUMENT: a file of it is damaged.
  static absl::StatusOr<std::shared_ptr<const ShippedSweeps>> Load(const std::string& folder);

  // The sweeps of a kernel, read when they are first asked for. INVALID_ARGUMENT: they are no
  // sweeps.
  absl::StatusOr<const std::vector<Sweep>*> OfKernel(const std::string& kernel_name) const;
  // The sweep that a shipped record is of; null: it came without. INVALID_ARGUMENT: as OfKernel.
  absl::StatusOr<const Sweep*> Of(const lookup::Record& record) const;
  std::vector<std::string> kernel_names() const;

 private:
  std::vector<std::string> texts_;  // that the lines point into
  lookup::LinesByKernel lines_;
  mutable Mutex mutex_;
  mutable std::map<std::string, std::vector<Sweep>> read_ ABSL_GUARDED_BY(mutex_);  // by kernel
};

}  // namespace tune::server
