// SPDX-License-Identifier: Apache-2.0
// The sweeps behind shipped records, so that a fresh install knows more of a shape than its winner:
// look-ups between shapes and the searches of new sweeps start from them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "lookup/record.h"
#include "tuner/trial_key.h"
#include "tuner/value.h"

namespace tune::server {

// Immutable.
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

  // Of the files' texts:
  //
  //   {"sweeps": [
  //   {"kernel": "softmax", "kernel_hash": "1f09...", "device": "NVIDIA H200", "target": "sm_90a",
  //    "dims": {"rows": 16384, "cols": 2048}, "dtype": "bf16",
  //    "params": [["ROW_THREADS", [32, 64]], ["KEEP", ["floats", "async"]]],
  //    "configs": [[1, 1, 29455.5, 40, 0, 16384]]}
  //   ]}
  //
  // A config is the place of each param's value in its list, then the median latency in
  // nanoseconds, none less than the one before, registers of a thread, static and dynamic shared
  // memory of a block in bytes. Measured with cold caches. INVALID_ARGUMENT: it is not that.
  static absl::StatusOr<ShippedSweeps> Parse(const std::vector<std::string_view>& texts);
  // All that were compiled in. INTERNAL: a file that cannot be read, which the tests refuse.
  static absl::StatusOr<ShippedSweeps> Load();

  // The sweep that a shipped record is of; null: it came without.
  const Sweep* Of(const lookup::Record& record) const;
  const std::vector<Sweep>& sweeps() const { return sweeps_; }

 private:
  std::vector<Sweep> sweeps_;
  std::map<std::string, size_t> places_;  // in sweeps_, by workload and source
};

}  // namespace tune::server
