// SPDX-License-Identifier: Apache-2.0
// Compiles, checks and times one config for its own sake.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/devices/devices.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/kernels/catalogue.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "server/workload/workload.h"
#include "tune/v1/bench.pb.h"
#include "tuner/sweep/evaluator.h"

namespace tune::server {

// What is to be measured, checked.
struct BenchCase {
  Workload workload;
  Config config;
  std::string reason;  // why this config, where the best was asked for
  SamplePolicy policy;
  uint64_t seed = 0;
};

struct BenchTools {
  const Catalogue& catalogue;
  Workers& workers;
  const Devices& devices;
  const RecordBook& records;
};

// Measures one config in one trial. CANCELLED once `cancelled` returns true.
absl::StatusOr<Trial> MeasureOne(Evaluator& evaluator, const Config& config,
                                 const Cancelled& cancelled);

// All must outlive the kind.
JobKind BenchKind(const BenchTools& tools);

// Its result is a v1::BenchResult. Not thread-safe: one run.
class BenchJob : public JobWork {
 public:
  // `workers` must outlive the job.
  BenchJob(Workers& workers, BenchCase item) : workers_(workers), case_(std::move(item)) {}

  End Run(JobContext& context) override { return {.status = Measure(context)}; }
  std::string Name() const override { return "a bench"; }
  size_t source_bytes() const override { return SourceBytesOf(case_.workload.kernel()); }

 private:
  absl::Status Measure(JobContext& context);

  Workers& workers_;
  const BenchCase case_;
};

}  // namespace tune::server
