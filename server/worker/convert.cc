// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

// Casts a number of the wire to an enum whose values are `first`..`last`.
template <typename Enum>
absl::StatusOr<Enum> ToEnum(int value, Enum first, Enum last, const char* what) {
  if (value < static_cast<int>(first) || value > static_cast<int>(last)) {
    return absl::InvalidArgumentError(absl::StrCat("no such ", what, ": ", value));
  }
  return static_cast<Enum>(value);
}

absl::StatusOr<DType> ToDType(int value) {
  return ToEnum(value, DType::kF64, DType::kI64, "data type");
}

absl::StatusOr<Outcome> ToOutcome(int value) {
  return ToEnum(value, Outcome::kOk, Outcome::kAboveRoof, "outcome");
}

// Faster or slower than this no launch is, whatever a worker says.
constexpr double kSampleNsMin = 1e-6;
constexpr double kSampleNsMax = 1e15;
constexpr size_t kWorstBytesMax = 200;  // the place of one element

// Seconds that something took, as a worker tells it; 0 if that cannot be.
double Seconds(double told) { return std::isfinite(told) && told > 0 ? told : 0; }

absl::StatusOr<Value> ValueFromProto(const v1::Value& proto) {
  switch (proto.kind_case()) {
    case v1::Value::kBoolean: return Value(proto.boolean());
    case v1::Value::kInteger: return Value(static_cast<int64_t>(proto.integer()));
    case v1::Value::kReal: return Value(proto.real());
    case v1::Value::kText: return Value(proto.text());
    case v1::Value::KIND_NOT_SET: break;
  }
  return absl::InvalidArgumentError("a scalar without a value");
}

worker::v1::Buffer BufferToProto(const BufferPlan& buffer) {
  worker::v1::Buffer proto;
  proto.set_name(buffer.name);
  proto.set_dtype(static_cast<int>(buffer.dtype));
  proto.set_count(buffer.count);
  proto.set_role(static_cast<int>(buffer.role));
  proto.set_fill_kind(static_cast<int>(buffer.fill.kind));
  proto.set_fill_low(buffer.fill.low);
  proto.set_fill_high(buffer.fill.high);
  return proto;
}

absl::StatusOr<BufferPlan> BufferFromProto(const worker::v1::Buffer& proto) {
  BufferPlan buffer;
  buffer.name = proto.name();
  ASSIGN_OR_RETURN(buffer.dtype, ToDType(proto.dtype()));
  buffer.count = proto.count();
  if (buffer.count < 0) return absl::InvalidArgumentError("a buffer of negative size");
  ASSIGN_OR_RETURN(buffer.role, ToEnum(proto.role(), Role::kInput, Role::kScratch, "role"));
  ASSIGN_OR_RETURN(buffer.fill.kind,
                   ToEnum(proto.fill_kind(), Fill::Kind::kNormal, Fill::Kind::kIota, "fill"));
  buffer.fill.low = proto.fill_low();
  buffer.fill.high = proto.fill_high();
  return buffer;
}

worker::v1::TensorMap TensorMapToProto(const TensorMapPlan& map) {
  worker::v1::TensorMap proto;
  proto.set_name(map.name);
  proto.set_buffer(map.buffer);
  proto.mutable_dims()->Add(map.dims.begin(), map.dims.end());
  proto.mutable_strides_bytes()->Add(map.strides_bytes.begin(), map.strides_bytes.end());
  proto.mutable_box()->Add(map.box.begin(), map.box.end());
  proto.set_swizzle_bytes(map.swizzle_bytes);
  proto.set_l2_promotion_bytes(map.l2_promotion_bytes);
  return proto;
}

TensorMapPlan TensorMapFromProto(const worker::v1::TensorMap& proto) {
  TensorMapPlan map;
  map.name = proto.name();
  map.buffer = proto.buffer();
  map.dims.assign(proto.dims().begin(), proto.dims().end());
  map.strides_bytes.assign(proto.strides_bytes().begin(), proto.strides_bytes().end());
  map.box.assign(proto.box().begin(), proto.box().end());
  map.swizzle_bytes = proto.swizzle_bytes();
  map.l2_promotion_bytes = proto.l2_promotion_bytes();
  return map;
}

worker::v1::Arg ArgToProto(const ArgPlan& arg) {
  worker::v1::Arg proto;
  if (const BufferPlan* buffer = std::get_if<BufferPlan>(&arg)) {
    *proto.mutable_buffer() = BufferToProto(*buffer);
  } else if (const ScalarPlan* scalar = std::get_if<ScalarPlan>(&arg)) {
    proto.mutable_scalar()->set_name(scalar->name);
    proto.mutable_scalar()->set_dtype(static_cast<int>(scalar->dtype));
    *proto.mutable_scalar()->mutable_value() = ToProto(scalar->value);
  } else {
    *proto.mutable_tensor_map() = TensorMapToProto(std::get<TensorMapPlan>(arg));
  }
  return proto;
}

absl::StatusOr<ArgPlan> ArgFromProto(const worker::v1::Arg& proto) {
  switch (proto.kind_case()) {
    case worker::v1::Arg::kBuffer: return BufferFromProto(proto.buffer());
    case worker::v1::Arg::kScalar: {
      ScalarPlan scalar;
      scalar.name = proto.scalar().name();
      ASSIGN_OR_RETURN(scalar.dtype, ToDType(proto.scalar().dtype()));
      ASSIGN_OR_RETURN(scalar.value, ValueFromProto(proto.scalar().value()));
      return scalar;
    }
    case worker::v1::Arg::kTensorMap: return TensorMapFromProto(proto.tensor_map());
    case worker::v1::Arg::KIND_NOT_SET: break;
  }
  return absl::InvalidArgumentError("an argument without a kind");
}

template <typename Repeated>
absl::StatusOr<std::vector<ArgPlan>> ArgsFromProto(const Repeated& protos) {
  std::vector<ArgPlan> args;
  for (const worker::v1::Arg& proto : protos) {
    ASSIGN_OR_RETURN(ArgPlan arg, ArgFromProto(proto));
    args.push_back(std::move(arg));
  }
  return args;
}

worker::v1::Launch LaunchToProto(const LaunchPlan& launch) {
  worker::v1::Launch proto;
  proto.set_entry(launch.entry);
  proto.mutable_grid()->Add(launch.grid.begin(), launch.grid.end());
  proto.mutable_block()->Add(launch.block.begin(), launch.block.end());
  proto.mutable_cluster()->Add(launch.cluster.begin(), launch.cluster.end());
  proto.set_shared_bytes(launch.shared_bytes);
  return proto;
}

template <typename Repeated>
absl::Status CopyThree(const Repeated& from, std::array<int64_t, 3>& to) {
  if (from.size() != 3) return absl::InvalidArgumentError("a launch without three dimensions");
  std::copy(from.begin(), from.end(), to.begin());
  return absl::OkStatus();
}

absl::StatusOr<LaunchPlan> LaunchFromProto(const worker::v1::Launch& proto) {
  LaunchPlan launch;
  launch.entry = proto.entry();
  RETURN_IF_ERROR(CopyThree(proto.grid(), launch.grid));
  RETURN_IF_ERROR(CopyThree(proto.block(), launch.block));
  RETURN_IF_ERROR(CopyThree(proto.cluster(), launch.cluster));
  launch.shared_bytes = proto.shared_bytes();
  return launch;
}

}  // namespace

void SetStatus(const absl::Status& status, worker::v1::WorkerReply& reply) {
  reply.set_status_code(static_cast<int>(status.code()));
  reply.set_status_message(Utf8(std::string(status.message())));
}

worker::v1::Compile ToWire(const CompilePlan& plan) {
  worker::v1::Compile proto;
  proto.set_target(plan.target);
  proto.set_source_name(plan.source_name);
  proto.set_source_text(plan.source_text);
  for (const SourceFile& header : plan.headers) {
    worker::v1::SourceFile* file = proto.add_headers();
    file->set_name(header.name);
    file->set_text(header.text);
  }
  for (const auto& [name, value] : plan.defines) {
    worker::v1::Define* define = proto.add_defines();
    define->set_name(name);
    define->set_value(value);
  }
  for (const std::string& option : plan.options) proto.add_options(option);
  proto.set_entry(plan.entry);
  return proto;
}

CompilePlan FromWire(const worker::v1::Compile& proto) {
  CompilePlan plan;
  plan.target = proto.target();
  plan.source_name = proto.source_name();
  plan.source_text = proto.source_text();
  for (const auto& header : proto.headers()) plan.headers.push_back({header.name(), header.text()});
  for (const auto& define : proto.defines()) {
    plan.defines.emplace_back(define.name(), define.value());
  }
  plan.options.assign(proto.options().begin(), proto.options().end());
  plan.entry = proto.entry();
  return plan;
}

worker::v1::Compiled ToWire(CompiledVariant variant) {
  worker::v1::Compiled proto;
  proto.set_outcome(static_cast<v1::Outcome>(variant.outcome));
  proto.set_log(Utf8(variant.log));
  proto.set_binary(std::move(variant.binary));
  Encode(variant.resources, *proto.mutable_resources());
  proto.set_seconds(variant.seconds);
  if (!variant.parameters) return proto;
  worker::v1::Parameters* parameters = proto.mutable_parameters();
  for (const ParameterFact& fact : *variant.parameters) {
    worker::v1::Parameter* parameter = parameters->add_parameters();
    parameter->set_bytes(fact.bytes);
    parameter->set_type(Utf8(fact.type));
  }
  return proto;
}

absl::StatusOr<CompiledVariant> FromWire(worker::v1::Compiled proto) {
  CompiledVariant variant;
  ASSIGN_OR_RETURN(variant.outcome, ToOutcome(proto.outcome()));
  variant.log = std::move(*proto.mutable_log());
  variant.binary = std::move(*proto.mutable_binary());
  RETURN_IF_ERROR(Decode(proto.resources(), variant.resources));
  variant.seconds = Seconds(proto.seconds());
  if (!proto.has_parameters()) return variant;
  variant.parameters.emplace();
  for (const auto& parameter : proto.parameters().parameters()) {
    variant.parameters->push_back({.bytes = parameter.bytes(), .type = parameter.type()});
  }
  return variant;
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

worker::v1::Prepare ToWire(const ProblemPlan& plan, const std::string& reference_binary,
                           uint64_t seed) {
  worker::v1::Prepare proto;
  for (const BufferPlan& buffer : plan.buffers) *proto.add_buffers() = BufferToProto(buffer);
  proto.set_reference_binary(reference_binary);
  *proto.mutable_reference_launch() = LaunchToProto(plan.reference_launch);
  for (const ArgPlan& arg : plan.reference_args) *proto.add_reference_args() = ArgToProto(arg);
  for (const auto& [dtype, tolerance] : plan.tolerances) {
    worker::v1::Tolerance* added = proto.add_tolerances();
    added->set_dtype(static_cast<int>(dtype));
    added->set_rtol(tolerance.rtol);
    added->set_atol(tolerance.atol);
  }
  proto.set_seed(seed);
  return proto;
}

absl::StatusOr<ProblemPlan> FromWire(const worker::v1::Prepare& proto) {
  ProblemPlan plan;
  for (const auto& buffer : proto.buffers()) {
    ASSIGN_OR_RETURN(BufferPlan added, BufferFromProto(buffer));
    plan.buffers.push_back(std::move(added));
  }
  ASSIGN_OR_RETURN(plan.reference_launch, LaunchFromProto(proto.reference_launch()));
  ASSIGN_OR_RETURN(plan.reference_args, ArgsFromProto(proto.reference_args()));
  for (const auto& tolerance : proto.tolerances()) {
    ASSIGN_OR_RETURN(DType dtype, ToDType(tolerance.dtype()));
    plan.tolerances.emplace_back(dtype, TolerancePlan{tolerance.rtol(), tolerance.atol()});
  }
  return plan;
}

worker::v1::Run ToWire(const RunRequest& request) {
  worker::v1::Run proto;
  proto.set_binary(request.binary);
  *proto.mutable_launch() = LaunchToProto(request.variant.launch);
  for (const ArgPlan& arg : request.variant.args) *proto.add_args() = ArgToProto(arg);
  Encode(request.policy, *proto.mutable_policy());
  return proto;
}

absl::StatusOr<RunRequest> FromWire(const worker::v1::Run& proto) {
  RunRequest request;
  request.binary = proto.binary();
  ASSIGN_OR_RETURN(request.variant.launch, LaunchFromProto(proto.launch()));
  ASSIGN_OR_RETURN(request.variant.args, ArgsFromProto(proto.args()));
  RETURN_IF_ERROR(Decode(proto.policy(), request.policy));
  return request;
}

worker::v1::RunReport ToWire(const RunReport& report) {
  return Encoded<worker::v1::RunReport>(report);
}

absl::StatusOr<RunReport> FromWire(const worker::v1::RunReport& proto) {
  ASSIGN_OR_RETURN(RunReport report, Decoded<RunReport>(proto));
  for (double sample_ns : report.samples_ns) {
    if (!(sample_ns >= kSampleNsMin && sample_ns <= kSampleNsMax)) {
      return absl::InvalidArgumentError(absl::StrCat("a sample of ", sample_ns, " ns"));
    }
  }
  if (report.outcome == Outcome::kOk && report.samples_ns.empty()) {
    return absl::InvalidArgumentError("an ok run without samples");
  }
  report.error.worst = Utf8(report.error.worst.substr(0, kWorstBytesMax));
  return report;
}

}  // namespace tune::server
