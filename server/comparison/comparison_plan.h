// SPDX-License-Identifier: Apache-2.0
// Checks what a client wants compared before anything is stored or started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/comparison.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/records/record_book.h"
#include "server/workload/workload.h"
#include "tune/v1/comparison.pb.h"

namespace tune::server {

// A kernel on a problem, and the config that stands for it.
struct ComparedWorkload {
  std::string label;
  Workload workload;
  Config config;
  std::string config_source;  // why this config
  // Set: the client runs it. The workload is the first kernel's then, and there is no config.
  std::optional<v1::Peer> peer;
};

struct ComparisonPlan {
  db::ComparisonRow run;                // without what only the opened device tells
  std::vector<std::string> device_ids;  // that it may run on, the preferred first
  // For each problem the kernels, in the request's order.
  std::vector<std::vector<ComparedWorkload>> problems;
  double leg_seconds = 0;  // 0: the default of the device

  bool HasPeers() const;
  // Of the kernels, each counted once.
  size_t SourceBytes() const;
  // How long it may have the device. Kernels are bound by the request's size alone; with peers,
  // whose turns last as long as a client says, an hour for each problem, and a day at most.
  absl::Duration TimeMax() const;
  // "softmax, mine: rows=8192 cols=4096 bf16".
  std::string Subject() const;
};

// The buffers that its kernel writes, in the order of the args.
std::vector<std::string> OutputNames(const ProblemPlan& plan);

struct ComparisonTools {
  const Catalogue& catalogue;
  const Devices& devices;
  const RecordBook& records;
};

// Errors are those of RunComparison in comparison.proto. Waits until the devices are known, at most
// until `deadline`.
absl::StatusOr<ComparisonPlan> CheckComparison(const v1::SubmitComparisonRequest& request,
                                               const ComparisonTools& tools, absl::Time deadline,
                                               const Cancelled& cancelled);

}  // namespace tune::server
