// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

// Faster or slower than this no launch is, whatever a worker says.
constexpr double kSampleNsMin = 1e-6;
constexpr double kSampleNsMax = 1e15;
constexpr size_t kWorstBytesMax = 200;  // the place of one element

}  // namespace

void SetStatus(const absl::Status& status, worker::v1::WorkerReply& reply) {
  reply.set_status_code(static_cast<int>(status.code()));
  reply.set_status_message(Utf8(std::string(status.message())));
}

worker::v1::Compile ToWire(const CompilePlan& plan) { return Encoded<worker::v1::Compile>(plan); }

absl::StatusOr<CompilePlan> FromWire(const worker::v1::Compile& proto) {
  return Decoded<CompilePlan>(proto);
}

worker::v1::Artifact ToWire(Artifact artifact) {
  auto proto = Encoded<worker::v1::Artifact>(artifact, {"binary"});
  proto.set_binary(std::move(artifact.binary));
  return proto;
}

absl::StatusOr<Artifact> FromWire(worker::v1::Artifact proto) {
  ASSIGN_OR_RETURN(Artifact artifact, Decoded<Artifact>(proto, {"binary"}));
  artifact.binary = std::move(*proto.mutable_binary());
  // A worker reports the time itself, so an impossible value becomes 0.
  if (!std::isfinite(artifact.seconds) || artifact.seconds < 0) artifact.seconds = 0;
  return artifact;
}

worker::v1::DeviceInfo ToWire(const DeviceInfo& info) {
  return Encoded<worker::v1::DeviceInfo>(info);
}

absl::StatusOr<DeviceInfo> FromWire(const worker::v1::DeviceInfo& proto) {
  ASSIGN_OR_RETURN(DeviceInfo info, Decoded<DeviceInfo>(proto));
  for (int64_t count : {info.sm_count, info.memory_bytes, info.l2_bytes, info.max_shared_bytes}) {
    if (count < 0) return absl::InvalidArgumentError(absl::StrCat("a device with ", count));
  }
  return info;
}

worker::v1::Program ToWire(const Program& program) { return Encoded<worker::v1::Program>(program); }

worker::v1::Prepare ToWire(const ProblemPlan& plan, const std::string& reference_binary,
                           uint64_t seed) {
  worker::v1::Prepare proto;
  for (const BufferPlan& buffer : plan.buffers) Encode(buffer, *proto.add_buffers());
  *proto.mutable_reference() = ToWire(WithBinary(plan.reference, reference_binary));
  for (const auto& [dtype, bounds] : plan.tolerances) {
    worker::v1::Tolerance* tolerance = proto.add_tolerances();
    tolerance->set_dtype(static_cast<worker::v1::DType>(dtype));
    Encode(bounds, *tolerance->mutable_bounds());
  }
  for (const auto& [buffer, bounds] : plan.buffer_tolerances) {
    worker::v1::Tolerance* tolerance = proto.add_tolerances();
    tolerance->set_buffer(buffer);
    Encode(bounds, *tolerance->mutable_bounds());
  }
  for (const BufferFile& file : plan.files) Encode(file, *proto.add_files());
  *proto.mutable_checker() = ToWire(WithBinary(plan.checker, plan.checker_binary));
  proto.set_seed(seed);
  return proto;
}

absl::StatusOr<ProblemPlan> FromWire(const worker::v1::Prepare& proto) {
  ProblemPlan plan;
  for (const auto& buffer : proto.buffers()) {
    RETURN_IF_ERROR(Decode(buffer, plan.buffers.emplace_back()));
  }
  for (const auto& step : proto.reference().steps()) {
    RETURN_IF_ERROR(Decode(step, plan.reference.steps.emplace_back()));
  }
  for (const auto& symbol : proto.reference().symbols()) {
    RETURN_IF_ERROR(Decode(symbol, plan.reference.symbols.emplace_back()));
  }
  ASSIGN_OR_RETURN(Program checker, Decoded<Program>(proto.checker()));
  plan.checker.steps = std::move(checker.steps);
  plan.checker.symbols = std::move(checker.symbols);
  plan.checker_binary = std::move(checker.binary);
  for (const auto& file : proto.files()) {
    RETURN_IF_ERROR(Decode(file, plan.files.emplace_back()));
  }
  for (const auto& tolerance : proto.tolerances()) {
    if (!tolerance.buffer().empty()) {
      auto& [buffer, bounds] = plan.buffer_tolerances.emplace_back();
      buffer = tolerance.buffer();
      RETURN_IF_ERROR(Decode(tolerance.bounds(), bounds));
      continue;
    }
    if (!worker::v1::DType_IsValid(tolerance.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat("no such data type: ", tolerance.dtype()));
    }
    auto& [dtype, bounds] = plan.tolerances.emplace_back();
    dtype = static_cast<DType>(tolerance.dtype());
    RETURN_IF_ERROR(Decode(tolerance.bounds(), bounds));
  }
  return plan;
}

worker::v1::Run ToWire(const RunRequest& request) { return Encoded<worker::v1::Run>(request); }

absl::StatusOr<RunRequest> FromWire(const worker::v1::Run& proto) {
  return Decoded<RunRequest>(proto);
}

worker::v1::RunReport ToWire(const RunReport& report) {
  return Encoded<worker::v1::RunReport>(report);
}

absl::StatusOr<RunReport> FromWireJudged(const worker::v1::RunReport& proto) {
  ASSIGN_OR_RETURN(RunReport report, Decoded<RunReport>(proto));
  report.error.worst = Utf8(report.error.worst.substr(0, kWorstBytesMax));
  return report;
}

worker::v1::Judge ToWire(const std::vector<BufferFile>& outputs) {
  worker::v1::Judge proto;
  for (const BufferFile& output : outputs) Encode(output, *proto.add_outputs());
  return proto;
}

absl::StatusOr<std::vector<BufferFile>> FromWire(const worker::v1::Judge& proto) {
  std::vector<BufferFile> outputs;
  for (const auto& output : proto.outputs()) {
    RETURN_IF_ERROR(Decode(output, outputs.emplace_back()));
  }
  return outputs;
}

absl::StatusOr<RunReport> FromWire(const worker::v1::RunReport& proto) {
  ASSIGN_OR_RETURN(RunReport report, FromWireJudged(proto));
  for (double sample_ns : report.samples_ns) {
    if (!(sample_ns >= kSampleNsMin && sample_ns <= kSampleNsMax)) {
      return absl::InvalidArgumentError(absl::StrCat("a sample of ", sample_ns, " ns"));
    }
  }
  if (report.outcome == Outcome::kOk && report.samples_ns.empty()) {
    return absl::InvalidArgumentError("an ok run without samples");
  }
  return report;
}

}  // namespace tune::server
