// SPDX-License-Identifier: Apache-2.0
// The daemon's limits, each a flag of tunerd. docs/tunerd.md describes what happens at each.
#pragma once

#include <cstdint>

namespace tune::server {

struct Limits {
  // The largest binary limit: a binary travels in one message to or from a worker (kFrameBytesMax).
  static constexpr int64_t kBinaryBytesMost = int64_t{32} << 20;

  int64_t binary_bytes = int64_t{16} << 20;        // of a compiled variant
  int64_t gate_binary_bytes = int64_t{256} << 20;  // of all binaries that a gate run keeps
  int64_t log_bytes = int64_t{64} << 10;           // of a compiler's words about a variant
  int64_t cache_bytes = int64_t{2} << 30;          // of the compile cache, on disk
  int64_t artifact_bytes = int64_t{4} << 30;       // of the artifacts of records, on disk
  // Compile workers, of each language; 0: one per hardware thread that has memory for one.
  int compile_workers = 0;
  int64_t connection_bytes = int64_t{256} << 20;    // of all clients' connections and calls
  int64_t compile_worker_bytes = int64_t{1} << 30;  // memory that is reckoned for one

  uint32_t unfinished_jobs = 256;  // waiting or running
  uint32_t operator_jobs = 16;     // places of the queue beyond those, for operators alone
  uint32_t turn_seconds = 30;      // that a principal has a device while others wait for it
  uint32_t watchers = 1024;        // of all jobs
  uint32_t watchers_per_job = 128;
  uint32_t known_trials = 50000;        // that a sweep takes over from earlier ones
  uint32_t remembered_results = 50000;  // by which a sweep's evaluator knows equal machine code
  uint32_t snapshots = 16;              // kept besides those that are pinned
  uint32_t job_deaths = 2;  // ends of the daemon, while it ran, after which a job has failed
};

}  // namespace tune::server
