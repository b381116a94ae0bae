// SPDX-License-Identifier: Apache-2.0
// What a client is told when a peer of its own has its turn: the first kernel's problem, as plain
// arrays and numbers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tune/v1/comparison.pb.h"
#include "tuner/device/runner.h"
#include "tuner/device_info.h"
#include "tuner/plan.h"
#include "tuner/problem.h"
#include "tuner/sample_policy.h"

namespace tune::server {

// Without number, lease and label. `program`: the first kernel's, whose scalars are told.
// RESOURCE_EXHAUSTED: what files and structured fills hold does not fit in a message.
absl::StatusOr<v1::PeerOrder> PeerOrderOf(const Problem& problem, const ProblemPlan& plan,
                                          const ProgramPlan& program, const DeviceInfo& device,
                                          uint64_t seed, const SamplePolicy& policy);

// What a peer has computed, as the first kernel's outputs. INVALID_ARGUMENT names an output that is
// missing.
absl::StatusOr<std::vector<BufferFile>> OutputsOf(const ProblemPlan& plan,
                                                  std::map<std::string, std::string> elements);

// A report as a worker's would be. INVALID_ARGUMENT: it makes no sense.
absl::StatusOr<RunReport> FromProto(const v1::PeerReport& report);

}  // namespace tune::server
