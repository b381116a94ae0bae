// SPDX-License-Identifier: Apache-2.0
// A record: the best known config for a key, with the evidence for it. The store keeps records, and
// look-ups answer with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fields.h"
#include "tuner/config.h"
#include "tuner/trial.h"
#include "tuner/trial_key.h"

namespace tune::lookup {

// A config that measured like the winner.
struct RecordTie {
  Config config;
  double latency_ns_median = 0;
};
TUNE_FIELDS(RecordTie, config, latency_ns_median);

// A config, what it measured in a search, and what its blocks take of a multiprocessor.
struct TimedConfig {
  Config config;
  double latency_ns_median = 0;
  int64_t registers = 0;
  int64_t static_shared_bytes = 0;
  int64_t dynamic_shared_bytes = 0;
};
TUNE_FIELDS(TimedConfig, config, latency_ns_median, registers, static_shared_bytes,
            dynamic_shared_bytes);

struct Record {
  int64_t id = 0;  // 0: of no store, it came with the program
  TrialKey key;
  std::string kernel_name;  // with its name space, as its sweep's
  // The winner, as confirmed; id and sweep_id set. Stored already: only its id is used to publish.
  Trial trial;
  double default_latency_ns = 0;
  uint32_t tie_count = 0;
  int64_t published_unix_ms = 0;
  // Both come from the trial's sweep. Publishing ignores them, since the sweep's row has them.
  uint64_t seed = 0;  // of the inputs
  std::vector<RecordTie> ties;
  std::string artifact;   // the digest of its file, "sha256:<hex>"; empty: none is kept
  std::string submitter;  // the owner of the sweep that found it; not needed to publish
};
TUNE_FIELDS(Record, id, key, kernel_name, trial, default_latency_ns, tie_count, published_unix_ms,
            seed, ties, artifact, submitter);

using RecordPtr = std::shared_ptr<const Record>;

}  // namespace tune::lookup
