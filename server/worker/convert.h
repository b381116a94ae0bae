// SPDX-License-Identifier: Apache-2.0
// Converts between worker.proto and the tuner's nouns. Input from the other end of a socket is
// checked: an enum value that does not exist is INVALID_ARGUMENT, not undefined behaviour.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tune/v1/trial.pb.h"
#include "tune/worker/v1/worker.pb.h"
#include "tuner/device/compiler.h"
#include "tuner/device/runner.h"
#include "tuner/plan.h"
#include "tuner/trial.h"

namespace tune::server {

// Sets a reply that reports an error instead of answering.
void SetStatus(const absl::Status& status, worker::v1::WorkerReply& reply);

worker::v1::Compile ToWire(const CompilePlan& plan);
absl::StatusOr<CompilePlan> FromWire(const worker::v1::Compile& proto);

// By value: a binary may be large, and a caller that no longer needs it moves it.
worker::v1::Artifact ToWire(Artifact artifact);
absl::StatusOr<Artifact> FromWire(worker::v1::Artifact proto);

worker::v1::DeviceInfo ToWire(const DeviceInfo& info);
absl::StatusOr<DeviceInfo> FromWire(const worker::v1::DeviceInfo& proto);

// Includes only the parts of the plan that a device worker needs; the reference travels as a
// binary.
worker::v1::Prepare ToWire(const ProblemPlan& plan, const std::string& reference_binary,
                           uint64_t seed);
absl::StatusOr<ProblemPlan> FromWire(const worker::v1::Prepare& proto);

worker::v1::Program ToWire(const Program& program);

worker::v1::Run ToWire(const RunRequest& request);
absl::StatusOr<RunRequest> FromWire(const worker::v1::Run& proto);

worker::v1::RunReport ToWire(const RunReport& report);
absl::StatusOr<RunReport> FromWire(const worker::v1::RunReport& proto);
// Reads the report of a judged run, which was not timed and has no samples.
absl::StatusOr<RunReport> FromWireJudged(const worker::v1::RunReport& proto);

worker::v1::Judge ToWire(const std::vector<BufferFile>& outputs);
absl::StatusOr<std::vector<BufferFile>> FromWire(const worker::v1::Judge& proto);

}  // namespace tune::server
