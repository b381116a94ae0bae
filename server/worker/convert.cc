// SPDX-License-Identifier: Apache-2.0
#include "server/worker/convert.h"

#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

// Which way a list of fields is read: each noun has one list, for both.
struct Out {
  static constexpr bool kOut = true;
  template <typename T>
  using Noun = const T;
  template <typename T>
  using Message = T;
};
struct In {
  static constexpr bool kOut = false;
  template <typename T>
  using Noun = T;
  template <typename T>
  using Message = const T;
};

// Faster or slower than this no launch is, whatever a worker says.
constexpr double kSampleNsMin = 1e-6;
constexpr double kSampleNsMax = 1e15;
constexpr size_t kWorstBytesMax = 200;  // the place of one element

// Casts a number of the wire to an enum whose values are `first`..`last`.
template <typename Enum>
absl::Status ReadEnum(int value, Enum first, Enum last, const char* what, Enum& to) {
  if (value < static_cast<int>(first) || value > static_cast<int>(last)) {
    return absl::InvalidArgumentError(absl::StrCat("no such ", what, ": ", value));
  }
  to = static_cast<Enum>(value);
  return absl::OkStatus();
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

// A field of one name in `noun` and `proto`: a number or text; text that a stranger may have said;
// a list of either; an enum, whose numbers on the wire are higher by `offset`; a noun; a list of
// nouns. A NOUN list ends the function where something is wrong.
#define TUNE_FIELD(name)          \
  if constexpr (Io::kOut) {       \
    proto.set_##name(noun.name);  \
  } else {                        \
    noun.name = proto.name();     \
  }
#define TUNE_TEXT(name)                \
  if constexpr (Io::kOut) {            \
    proto.set_##name(Utf8(noun.name)); \
  } else {                             \
    noun.name = proto.name();          \
  }
#define TUNE_LIST(name)                                                       \
  if constexpr (Io::kOut) {                                                   \
    for (const auto& item : noun.name) proto.add_##name(item);                \
  } else if constexpr (requires { noun.name.assign(proto.name().begin(),      \
                                                   proto.name().end()); }) {  \
    noun.name.assign(proto.name().begin(), proto.name().end());               \
  } else {                                                                    \
    RETURN_IF_ERROR(ReadArray(proto.name(), noun.name));                      \
  }
#define TUNE_ENUM(name, first, last, offset, what)                                         \
  if constexpr (Io::kOut) {                                                                \
    proto.set_##name(                                                                      \
        static_cast<decltype(proto.name())>(static_cast<int>(noun.name) + offset));        \
  } else {                                                                                 \
    RETURN_IF_ERROR(ReadEnum(static_cast<int>(proto.name()) - offset, first, last, what,   \
                             noun.name));                                                  \
  }
#define TUNE_DTYPE(name) TUNE_ENUM(name, DType::kF64, DType::kI64, 0, "data type")
#define TUNE_NOUN(name)                                            \
  if constexpr (Io::kOut) {                                        \
    RETURN_IF_ERROR(Fields(io, noun.name, *proto.mutable_##name())); \
  } else {                                                         \
    RETURN_IF_ERROR(Fields(io, noun.name, proto.name()));          \
  }
#define TUNE_NOUNS(name)                                                            \
  if constexpr (Io::kOut) {                                                         \
    for (const auto& item : noun.name) RETURN_IF_ERROR(Fields(io, item, *proto.add_##name())); \
  } else {                                                                          \
    for (const auto& item : proto.name()) {                                         \
      RETURN_IF_ERROR(Fields(io, noun.name.emplace_back(), item));                  \
    }                                                                               \
  }

template <typename Repeated, typename T, size_t kCount>
absl::Status ReadArray(const Repeated& from, std::array<T, kCount>& to) {
  if (static_cast<size_t>(from.size()) != kCount) {
    return absl::InvalidArgumentError(absl::StrCat("a list of ", from.size(), ", not ", kCount));
  }
  std::copy(from.begin(), from.end(), to.begin());
  return absl::OkStatus();
}

#define TUNE_FIELDS(NounType, MessageType)                                         \
  template <typename Io>                                                           \
  absl::Status Fields([[maybe_unused]] Io io, typename Io::template Noun<NounType>& noun, \
                      typename Io::template Message<MessageType>& proto)

TUNE_FIELDS(SourceFile, worker::v1::SourceFile) {
  TUNE_FIELD(name);
  TUNE_FIELD(text);
  return absl::OkStatus();
}

TUNE_FIELDS(ParameterFact, worker::v1::Parameter) {
  TUNE_FIELD(bytes);
  TUNE_TEXT(type);
  return absl::OkStatus();
}

TUNE_FIELDS(EntryFacts, worker::v1::Entry) {
  TUNE_TEXT(name);
  TUNE_FIELD(threads);
  TUNE_FIELD(threads_max);
  if constexpr (Io::kOut) {
    if (!noun.parameters.has_value()) return absl::OkStatus();
    for (const ParameterFact& fact : *noun.parameters) {
      RETURN_IF_ERROR(Fields(io, fact, *proto.mutable_parameters()->add_parameters()));
    }
    proto.mutable_parameters();
  } else {
    if (!proto.has_parameters()) return absl::OkStatus();
    noun.parameters.emplace();
    for (const auto& fact : proto.parameters().parameters()) {
      RETURN_IF_ERROR(Fields(io, noun.parameters->emplace_back(), fact));
    }
  }
  return absl::OkStatus();
}

TUNE_FIELDS(Fill, v1::Fill) {
  TUNE_ENUM(kind, Fill::Kind::kNormal, Fill::Kind::kIota, 1, "fill");
  TUNE_FIELD(low);
  TUNE_FIELD(high);
  return absl::OkStatus();
}

TUNE_FIELDS(BufferPlan, worker::v1::Buffer) {
  TUNE_FIELD(name);
  TUNE_DTYPE(dtype);
  TUNE_FIELD(count);
  TUNE_ENUM(role, Role::kInput, Role::kScratch, 1, "role");
  TUNE_NOUN(fill);
  return noun.count < 0 ? absl::InvalidArgumentError("a buffer of negative size")
                        : absl::OkStatus();
}

TUNE_FIELDS(ScalarPlan, worker::v1::Scalar) {
  TUNE_FIELD(name);
  TUNE_DTYPE(dtype);
  if constexpr (Io::kOut) {
    *proto.mutable_value() = ToProto(noun.value);
  } else {
    ASSIGN_OR_RETURN(noun.value, ValueFromProto(proto.value()));
  }
  return absl::OkStatus();
}

TUNE_FIELDS(TensorMapPlan, worker::v1::TensorMap) {
  TUNE_FIELD(name);
  TUNE_FIELD(buffer);
  TUNE_LIST(dims);
  TUNE_LIST(strides_bytes);
  TUNE_LIST(box);
  TUNE_FIELD(swizzle_bytes);
  TUNE_FIELD(l2_promotion_bytes);
  return absl::OkStatus();
}

absl::Status Fields(Out io, const ArgPlan& noun, worker::v1::Arg& proto) {
  if (const auto* buffer = std::get_if<BufferPlan>(&noun)) {
    return Fields(io, *buffer, *proto.mutable_buffer());
  }
  if (const auto* scalar = std::get_if<ScalarPlan>(&noun)) {
    return Fields(io, *scalar, *proto.mutable_scalar());
  }
  return Fields(io, std::get<TensorMapPlan>(noun), *proto.mutable_tensor_map());
}

absl::Status Fields(In io, ArgPlan& noun, const worker::v1::Arg& proto) {
  switch (proto.kind_case()) {
    case worker::v1::Arg::kBuffer:
      return Fields(io, noun.emplace<BufferPlan>(), proto.buffer());
    case worker::v1::Arg::kScalar:
      return Fields(io, noun.emplace<ScalarPlan>(), proto.scalar());
    case worker::v1::Arg::kTensorMap:
      return Fields(io, noun.emplace<TensorMapPlan>(), proto.tensor_map());
    case worker::v1::Arg::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("an argument without a kind");
}

TUNE_FIELDS(LaunchPlan, worker::v1::Launch) {
  TUNE_FIELD(entry);
  TUNE_LIST(grid);
  TUNE_LIST(block);
  TUNE_LIST(cluster);
  TUNE_FIELD(shared_bytes);
  return absl::OkStatus();
}

TUNE_FIELDS(StepPlan, worker::v1::Step) {
  TUNE_NOUN(launch);
  TUNE_NOUNS(args);
  TUNE_NOUNS(zero);
  return absl::OkStatus();
}

TUNE_FIELDS(Program, worker::v1::Program) {
  TUNE_NOUNS(steps);
  TUNE_FIELD(binary);
  return absl::OkStatus();
}

TUNE_FIELDS(SamplePolicy, worker::v1::SamplePolicy) {
  TUNE_ENUM(cache_mode, CacheMode::kCold, CacheMode::kWarm, 0, "cache mode");
  TUNE_FIELD(samples_min);
  TUNE_FIELD(samples_max);
  TUNE_FIELD(seconds_max);
  TUNE_FIELD(precision);
  TUNE_FIELD(rival_latency_ns);
  TUNE_FIELD(hopeless_ratio);
  return absl::OkStatus();
}

TUNE_FIELDS(RunRequest, worker::v1::Run) {
  TUNE_NOUN(program);
  TUNE_NOUN(policy);
  return absl::OkStatus();
}

TUNE_FIELDS(DeviceInfo, worker::v1::DeviceInfo) {
  TUNE_TEXT(name);
  TUNE_FIELD(target);
  TUNE_FIELD(sm_count);
  TUNE_FIELD(memory_bytes);
  TUNE_FIELD(l2_bytes);
  TUNE_FIELD(max_shared_bytes);
  TUNE_FIELD(uuid);
  TUNE_FIELD(driver);
  TUNE_ENUM(clock, Clock::kUnknown, Clock::kHost, 0, "clock");
  TUNE_TEXT(clock_note);
  for (int64_t count : {noun.sm_count, noun.memory_bytes, noun.l2_bytes, noun.max_shared_bytes}) {
    if (count < 0) return absl::InvalidArgumentError(absl::StrCat("a device with ", count));
  }
  return absl::OkStatus();
}

TUNE_FIELDS(CompilePlan, worker::v1::Compile) {
  TUNE_FIELD(target);
  TUNE_NOUNS(headers);
  TUNE_LIST(options);
  TUNE_LIST(entries);
  if constexpr (Io::kOut) {
    proto.set_language(static_cast<v1::Language>(noun.language));
    proto.mutable_source()->set_name(noun.source_name);
    proto.mutable_source()->set_text(noun.source_text);
    for (const auto& [name, value] : noun.defines) {
      worker::v1::Define* define = proto.add_defines();
      define->set_name(name);
      define->set_value(value);
    }
  } else {
    ASSIGN_OR_RETURN(noun.language, ToLanguage(proto.language()));
    noun.source_name = proto.source().name();
    noun.source_text = proto.source().text();
    for (const auto& define : proto.defines()) {
      noun.defines.emplace_back(define.name(), define.value());
    }
  }
  return absl::OkStatus();
}

TUNE_FIELDS(RunReport, worker::v1::RunReport) {
  TUNE_ENUM(outcome, Outcome::kOk, Outcome::kAboveRoof, 0, "outcome");
  TUNE_TEXT(message);
  TUNE_LIST(samples_ns);
  TUNE_FIELD(stopped_early);
  TUNE_ENUM(clock, Clock::kUnknown, Clock::kHost, 0, "clock");
  return absl::OkStatus();
}

// What this end has can always be written.
template <typename Message, typename Noun>
Message Written(const Noun& noun) {
  Message proto;
  Fields(Out(), noun, proto).IgnoreError();
  return proto;
}

template <typename Noun, typename Message>
absl::StatusOr<Noun> ReadNoun(const Message& proto) {
  Noun noun;
  RETURN_IF_ERROR(Fields(In(), noun, proto));
  return noun;
}

}  // namespace

void SetStatus(const absl::Status& status, worker::v1::WorkerReply& reply) {
  reply.set_status_code(static_cast<int>(status.code()));
  reply.set_status_message(Utf8(std::string(status.message())));
}

worker::v1::Compile ToWire(const CompilePlan& plan) { return Written<worker::v1::Compile>(plan); }

absl::StatusOr<CompilePlan> FromWire(const worker::v1::Compile& proto) {
  return ReadNoun<CompilePlan>(proto);
}

worker::v1::Artifact ToWire(Artifact artifact) {
  worker::v1::Artifact proto;
  proto.set_outcome(static_cast<v1::Outcome>(artifact.outcome));
  proto.set_log(Utf8(artifact.log));
  proto.set_binary(std::move(artifact.binary));
  *proto.mutable_resources() = ToProto(artifact.resources);
  proto.set_seconds(artifact.seconds);
  for (const EntryFacts& entry : artifact.entries) {
    *proto.add_entries() = Written<worker::v1::Entry>(entry);
  }
  return proto;
}

absl::StatusOr<Artifact> FromWire(worker::v1::Artifact proto) {
  Artifact artifact;
  RETURN_IF_ERROR(ReadEnum(proto.outcome(), Outcome::kOk, Outcome::kAboveRoof, "outcome",
                           artifact.outcome));
  artifact.log = std::move(*proto.mutable_log());
  artifact.binary = std::move(*proto.mutable_binary());
  artifact.resources = FromProto(proto.resources());
  // As a worker tells it; 0 if that cannot be.
  artifact.seconds = std::isfinite(proto.seconds()) && proto.seconds() > 0 ? proto.seconds() : 0;
  for (const auto& entry : proto.entries()) {
    RETURN_IF_ERROR(Fields(In(), artifact.entries.emplace_back(), entry));
  }
  return artifact;
}

worker::v1::DeviceInfo ToWire(const DeviceInfo& info) {
  return Written<worker::v1::DeviceInfo>(info);
}

absl::StatusOr<DeviceInfo> FromWire(const worker::v1::DeviceInfo& proto) {
  return ReadNoun<DeviceInfo>(proto);
}

worker::v1::Program ToWire(const Program& program) { return Written<worker::v1::Program>(program); }

worker::v1::Prepare ToWire(const ProblemPlan& plan, const std::string& reference_binary,
                           uint64_t seed) {
  worker::v1::Prepare proto;
  for (const BufferPlan& buffer : plan.buffers) {
    *proto.add_buffers() = Written<worker::v1::Buffer>(buffer);
  }
  *proto.mutable_reference() = ToWire(Program{plan.reference.steps, reference_binary});
  for (const auto& [dtype, tolerance] : plan.tolerances) {
    worker::v1::Tolerance* added = proto.add_tolerances();
    added->set_dtype(static_cast<worker::v1::DType>(dtype));
    added->set_rtol(tolerance.rtol);
    added->set_atol(tolerance.atol);
  }
  proto.set_seed(seed);
  return proto;
}

absl::StatusOr<ProblemPlan> FromWire(const worker::v1::Prepare& proto) {
  ProblemPlan plan;
  for (const auto& buffer : proto.buffers()) {
    RETURN_IF_ERROR(Fields(In(), plan.buffers.emplace_back(), buffer));
  }
  for (const auto& step : proto.reference().steps()) {
    RETURN_IF_ERROR(Fields(In(), plan.reference.steps.emplace_back(), step));
  }
  for (const auto& tolerance : proto.tolerances()) {
    auto& [dtype, bounds] = plan.tolerances.emplace_back();
    RETURN_IF_ERROR(ReadEnum(tolerance.dtype(), DType::kF64, DType::kI64, "data type", dtype));
    bounds = {tolerance.rtol(), tolerance.atol()};
  }
  return plan;
}

worker::v1::Run ToWire(const RunRequest& request) { return Written<worker::v1::Run>(request); }

absl::StatusOr<RunRequest> FromWire(const worker::v1::Run& proto) {
  return ReadNoun<RunRequest>(proto);
}

worker::v1::RunReport ToWire(const RunReport& report) {
  auto proto = Written<worker::v1::RunReport>(report);
  *proto.mutable_telemetry() = ToProto(report.telemetry);
  *proto.mutable_error() = ToProto(report.error);
  *proto.mutable_resources() = ToProto(report.resources);
  return proto;
}

absl::StatusOr<RunReport> FromWire(const worker::v1::RunReport& proto) {
  ASSIGN_OR_RETURN(RunReport report, ReadNoun<RunReport>(proto));
  for (double sample_ns : report.samples_ns) {
    if (!(sample_ns >= kSampleNsMin && sample_ns <= kSampleNsMax)) {
      return absl::InvalidArgumentError(absl::StrCat("a sample of ", sample_ns, " ns"));
    }
  }
  if (report.outcome == Outcome::kOk && report.samples_ns.empty()) {
    return absl::InvalidArgumentError("an ok run without samples");
  }
  report.telemetry = FromProto(proto.telemetry());
  report.error = FromProto(proto.error());
  report.error.worst = Utf8(report.error.worst.substr(0, kWorstBytesMax));
  report.resources = FromProto(proto.resources());
  return report;
}

}  // namespace tune::server
