// SPDX-License-Identifier: Apache-2.0
// Compiles, checks and times one config for its own sake.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/store.h"
#include "server/jobs/job.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "server/workload/workload.h"
#include "tune/v1/bench.pb.h"

namespace tune::server {

// What is to be measured, checked.
struct BenchCase {
  Workload workload;
  Config config;
  std::string reason;  // why this config, where the best was asked for
  SamplePolicy policy;
  uint64_t seed = 0;
};

// Errors are those of Measure in bench.proto.
absl::StatusOr<BenchCase> CheckBench(const v1::MeasureRequest& request, const Catalogue& catalogue,
                                     const Devices& devices, const RecordBook& records,
                                     absl::Time deadline, const Cancelled& cancelled);

// Not thread-safe: one run.
class BenchJob : public JobWork {
 public:
  // Told once, when the job has ended: with what was measured, unless the status says why not.
  using Answer =
      std::function<void(const absl::Status& status, const v1::MeasureResponse& response)>;

  // Both must outlive the job.
  BenchJob(db::Store& store, Workers& workers, BenchCase item, Answer answer)
      : store_(store), workers_(workers), case_(std::move(item)), answer_(std::move(answer)) {}

  End Run(JobContext& context) override { return {.status = Measure(context)}; }
  absl::Status Store(const db::JobRow& row) override { return store_.UpdateJob(row); }
  void Ended(const absl::Status& status) override { answer_(status, response_); }
  std::string Name() const override { return "a bench"; }
  size_t source_bytes() const override { return SourceBytesOf(case_.workload.kernel()); }

 private:
  absl::Status Measure(JobContext& context);

  db::Store& store_;
  Workers& workers_;
  const BenchCase case_;
  const Answer answer_;
  v1::MeasureResponse response_;
};

}  // namespace tune::server
