// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::StatusOr<Clock> ToClock(int value) {
  return ToEnum(value, Clock::kUnknown, Clock::kHost, "clock");
}

absl::StatusOr<Outcome> ToOutcome(int value) {
  return ToEnum(value, Outcome::kOk, Outcome::kAboveRoof, "outcome");
}

uint32_t Clamp32(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}

// Is there a well-formed sequence of 2, 3 or 4 bytes here: no stray, overlong or surrogate form?
bool IsUtf8Sequence(const std::string& text, size_t at, size_t length) {
  if (at + length > text.size()) return false;
  const unsigned char first = static_cast<unsigned char>(text[at]);
  const unsigned char second = static_cast<unsigned char>(text[at + 1]);
  if (first < 0xc2 || first > 0xf4) return false;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return false;
  }
  if (first == 0xe0) return second >= 0xa0;
  if (first == 0xed) return second < 0xa0;
  if (first == 0xf0) return second >= 0x90;
  if (first == 0xf4) return second < 0x90;
  return true;
}

// Protobuf refuses to parse a string that is not UTF-8, and a compiler's log may quote anything.
std::string Utf8(const std::string& text) {
  std::string valid = text;
  size_t at = 0;
  while (at < valid.size()) {
    const unsigned char first = static_cast<unsigned char>(valid[at]);
    const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (length == 1 || IsUtf8Sequence(valid, at, length)) {
      at += length;
    } else {
      valid[at++] = '?';
    }
  }
  return valid;
}

v1::Value ValueToProto(const Value& value) {
  v1::Value proto;
  if (const bool* boolean = std::get_if<bool>(&value)) {
    proto.set_boolean(*boolean);
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    proto.set_integer(*integer);
  } else if (const double* real = std::get_if<double>(&value)) {
    proto.set_real(*real);
  } else {
    proto.set_text(std::get<std::string>(value));
  }
  return proto;
}

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

v1::Resources ResourcesToProto(const Resources& resources) {
  v1::Resources proto;
  proto.set_registers(Clamp32(resources.registers));
  proto.set_spill_bytes(Clamp32(resources.spill_bytes));
  proto.set_stack_bytes(Clamp32(resources.stack_bytes));
  proto.set_static_shared_bytes(Clamp32(resources.static_shared_bytes));
  proto.set_dynamic_shared_bytes(Clamp32(resources.dynamic_shared_bytes));
  proto.set_binary_bytes(Clamp32(resources.binary_bytes));
  proto.set_binary_sha256(resources.binary_sha256);
  return proto;
}

Resources ResourcesFromProto(const v1::Resources& proto) {
  Resources resources;
  resources.registers = proto.registers();
  resources.spill_bytes = proto.spill_bytes();
  resources.stack_bytes = proto.stack_bytes();
  resources.static_shared_bytes = proto.static_shared_bytes();
  resources.dynamic_shared_bytes = proto.dynamic_shared_bytes();
  resources.binary_bytes = proto.binary_bytes();
  resources.binary_sha256 = proto.binary_sha256();
  return resources;
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
    *proto.mutable_scalar()->mutable_value() = ValueToProto(scalar->value);
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

worker::v1::SamplePolicy PolicyToProto(const SamplePolicy& policy) {
  worker::v1::SamplePolicy proto;
  proto.set_cache_mode(static_cast<int>(policy.cache_mode));
  proto.set_samples_min(policy.samples_min);
  proto.set_samples_max(policy.samples_max);
  proto.set_seconds_max(policy.seconds_max);
  proto.set_precision(policy.precision);
  proto.set_rival_latency_ns(policy.rival_latency_ns);
  proto.set_hopeless_ratio(policy.hopeless_ratio);
  return proto;
}

absl::StatusOr<SamplePolicy> PolicyFromProto(const worker::v1::SamplePolicy& proto) {
  SamplePolicy policy;
  ASSIGN_OR_RETURN(policy.cache_mode,
                   ToEnum(proto.cache_mode(), CacheMode::kCold, CacheMode::kWarm, "cache mode"));
  policy.samples_min = proto.samples_min();
  policy.samples_max = proto.samples_max();
  policy.seconds_max = proto.seconds_max();
  policy.precision = proto.precision();
  policy.rival_latency_ns = proto.rival_latency_ns();
  policy.hopeless_ratio = proto.hopeless_ratio();
  return policy;
}

}  // namespace

std::string WireText(const std::string& text) { return Utf8(text); }

v1::Telemetry ToWire(const Telemetry& telemetry) {
  v1::Telemetry proto;
  proto.set_sm_clock_mhz(Clamp32(telemetry.sm_clock_mhz));
  proto.set_memory_clock_mhz(Clamp32(telemetry.memory_clock_mhz));
  proto.set_power_mw(Clamp32(telemetry.power_mw));
  proto.set_temperature_c(Clamp32(telemetry.temperature_c));
  proto.set_throttle_reasons(telemetry.throttle_reasons);
  proto.set_compute_processes(static_cast<uint32_t>(telemetry.compute_processes));
  return proto;
}

Telemetry FromWire(const v1::Telemetry& proto) {
  return {proto.sm_clock_mhz(), proto.memory_clock_mhz(), proto.power_mw(), proto.temperature_c(),
          proto.throttle_reasons(), proto.compute_processes()};
}

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

worker::v1::Compiled ToWire(const CompiledVariant& variant) {
  worker::v1::Compiled proto;
  proto.set_outcome(static_cast<v1::Outcome>(variant.outcome));
  proto.set_log(Utf8(variant.log));
  proto.set_binary(variant.binary);
  *proto.mutable_resources() = ResourcesToProto(variant.resources);
  proto.set_seconds(variant.seconds);
  return proto;
}

absl::StatusOr<CompiledVariant> FromWire(const worker::v1::Compiled& proto) {
  CompiledVariant variant;
  ASSIGN_OR_RETURN(variant.outcome, ToOutcome(proto.outcome()));
  variant.log = proto.log();
  variant.binary = proto.binary();
  variant.resources = ResourcesFromProto(proto.resources());
  variant.seconds = proto.seconds();
  return variant;
}

worker::v1::DeviceInfo ToWire(const DeviceInfo& info) {
  worker::v1::DeviceInfo proto;
  proto.set_name(Utf8(info.name));
  proto.set_target(info.target);
  proto.set_sm_count(info.sm_count);
  proto.set_memory_bytes(info.memory_bytes);
  proto.set_l2_bytes(info.l2_bytes);
  proto.set_max_shared_bytes(info.max_shared_bytes);
  proto.set_uuid(info.uuid);
  proto.set_driver(info.driver);
  proto.set_clock(static_cast<int>(info.clock));
  proto.set_clock_note(Utf8(info.clock_note));
  return proto;
}

absl::StatusOr<DeviceInfo> FromWire(const worker::v1::DeviceInfo& proto) {
  DeviceInfo info;
  info.name = proto.name();
  info.target = proto.target();
  info.sm_count = proto.sm_count();
  info.memory_bytes = proto.memory_bytes();
  info.l2_bytes = proto.l2_bytes();
  info.max_shared_bytes = proto.max_shared_bytes();
  info.uuid = proto.uuid();
  info.driver = proto.driver();
  ASSIGN_OR_RETURN(info.clock, ToClock(proto.clock()));
  info.clock_note = proto.clock_note();
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
  *proto.mutable_policy() = PolicyToProto(request.policy);
  return proto;
}

absl::StatusOr<RunRequest> FromWire(const worker::v1::Run& proto) {
  RunRequest request;
  request.binary = proto.binary();
  ASSIGN_OR_RETURN(request.variant.launch, LaunchFromProto(proto.launch()));
  ASSIGN_OR_RETURN(request.variant.args, ArgsFromProto(proto.args()));
  ASSIGN_OR_RETURN(request.policy, PolicyFromProto(proto.policy()));
  return request;
}

worker::v1::RunReport ToWire(const RunReport& report) {
  worker::v1::RunReport proto;
  proto.set_outcome(static_cast<v1::Outcome>(report.outcome));
  proto.set_message(Utf8(report.message));
  proto.mutable_samples_ns()->Add(report.samples_ns.begin(), report.samples_ns.end());
  proto.set_stopped_early(report.stopped_early);
  proto.set_clock(static_cast<int>(report.clock));
  *proto.mutable_telemetry() = ToWire(report.telemetry);
  v1::ResultError* error = proto.mutable_error();
  error->set_max_abs(report.error.max_abs);
  error->set_max_rel(report.error.max_rel);
  error->set_relative_l2(report.error.relative_l2);
  error->set_bad_elements(report.error.bad_elements);
  error->set_worst(Utf8(report.error.worst));
  *proto.mutable_resources() = ResourcesToProto(report.resources);
  return proto;
}

absl::StatusOr<RunReport> FromWire(const worker::v1::RunReport& proto) {
  RunReport report;
  ASSIGN_OR_RETURN(report.outcome, ToOutcome(proto.outcome()));
  report.message = proto.message();
  report.samples_ns.assign(proto.samples_ns().begin(), proto.samples_ns().end());
  for (double sample_ns : report.samples_ns) {
    if (!std::isfinite(sample_ns) || sample_ns <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("a sample of ", sample_ns, " ns"));
    }
  }
  if (report.outcome == Outcome::kOk && report.samples_ns.empty()) {
    return absl::InvalidArgumentError("an ok run without samples");
  }
  report.stopped_early = proto.stopped_early();
  ASSIGN_OR_RETURN(report.clock, ToClock(proto.clock()));
  report.telemetry = FromWire(proto.telemetry());
  report.error = {proto.error().max_abs(), proto.error().max_rel(), proto.error().relative_l2(),
                  proto.error().bad_elements(), proto.error().worst()};
  report.resources = ResourcesFromProto(proto.resources());
  return report;
}

}  // namespace tune::server
