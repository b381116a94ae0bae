// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/peer_order.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/wire/nouns.h"
#include "server/wire/utf8.h"
#include "tuner/device/host_call.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/structured_fill.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

constexpr int64_t kElementsBytesMax = int64_t{48} << 20;  // of an order
// Of everything that a turn is: starting Python with its modules, compiling, checking.
constexpr double kTurnSecondsMax = 300;
constexpr double kSampleNsMax = 1e12;

bool IsFromFile(const BufferPlan& buffer, const HostCall& given) {
  return std::any_of(given.files.begin(), given.files.end(), [&](const BufferFile& file) {
    return file.buffer == buffer.name && !file.expected;
  });
}

// Whether an order has the buffer's elements themselves, not how to make them.
bool IsSentWhole(const BufferPlan& buffer, const HostCall& given) {
  return IsFilled(buffer.role) && (IsFromFile(buffer, given) || IsStructured(buffer.fill.kind));
}

// Before any element is made: these are made in the daemon, on the thread of the job.
absl::Status CheckElements(const ProblemPlan& plan, const HostCall& given) {
  int64_t left = kElementsBytesMax;
  for (const BufferPlan& buffer : plan.buffers) {
    if (!IsSentWhole(buffer, given)) continue;
    const int64_t size = SizeInBytes(buffer.dtype);
    const int64_t steps = IsFromFile(buffer, given) ? buffer.count : StructuredFillSteps(buffer);
    if (buffer.count <= left / size && steps <= kElementsBytesMax) {
      left -= buffer.count * size;
      continue;
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("what '", buffer.name,
                     "' holds is too large to be sent to a peer: ", kElementsBytesMax >> 20,
                     " MiB of files and structured fills are possible; compare a "
                     "smaller problem"));
  }
  return absl::OkStatus();
}

v1::PeerArg ArgOf(const BufferPlan& buffer, const HostCall& given) {
  v1::PeerArg arg;
  arg.set_name(buffer.name);
  arg.set_dtype(ToText(buffer.dtype));
  for (const int64_t extent : buffer.shape) arg.add_shape(extent);
  arg.set_role(static_cast<v1::Role>(buffer.role));
  if (!IsFilled(buffer.role)) return arg;
  if (IsSentWhole(buffer, given)) {
    arg.set_elements(ElementsOf(buffer, given));
    return arg;
  }
  arg.set_fill_kind(static_cast<v1::Fill::Kind>(buffer.fill.kind));
  arg.set_fill_low(buffer.fill.low);
  arg.set_fill_high(buffer.fill.high);
  arg.set_fill_key(KeyNameOf(buffer));
  return arg;
}

void AddScalars(const ProgramPlan& program, v1::PeerOrder& order) {
  std::set<std::string> known;
  for (const StepPlan& step : program.steps) {
    for (const ArgPlan& planned : step.args) {
      const auto* scalar = std::get_if<ScalarPlan>(&planned);
      if (scalar == nullptr || !known.insert(scalar->name).second) continue;
      v1::PeerArg* arg = order.add_args();
      arg->set_name(scalar->name);
      arg->set_dtype(ToText(scalar->dtype));
      *arg->mutable_scalar() = ToProto(scalar->value);
    }
  }
}

}  // namespace

absl::StatusOr<v1::PeerOrder> PeerOrderOf(const Problem& problem, const ProblemPlan& plan,
                                          const ProgramPlan& program, const DeviceInfo& device,
                                          uint64_t seed, const SamplePolicy& policy) {
  v1::PeerOrder order;
  *order.mutable_problem() = ToProto(problem);
  order.set_target(device.target);
  if (!ProfileOfTarget(device.target).is_host) order.set_device_uuid(device.uuid);
  order.set_seed(seed);
  order.set_cache_mode(static_cast<v1::CacheMode>(policy.cache_mode));
  order.set_samples_min(static_cast<uint32_t>(policy.samples_min));
  order.set_samples_max(static_cast<uint32_t>(policy.samples_max));
  order.set_kernel_seconds(policy.seconds_max);
  order.set_seconds_max(kTurnSecondsMax);
  HostCall given;
  given.seed = seed;
  given.files = plan.files;
  RETURN_IF_ERROR(CheckElements(plan, given));
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role != Role::kScratch) *order.add_args() = ArgOf(buffer, given);
  }
  AddScalars(program, order);
  return order;
}

absl::StatusOr<std::vector<BufferFile>> OutputsOf(const ProblemPlan& plan,
                                                  std::map<std::string, std::string> elements) {
  std::vector<BufferFile> outputs;
  for (const BufferPlan& buffer : plan.buffers) {
    if (!IsChecked(buffer.role)) continue;
    const auto found = elements.find(buffer.name);
    if (found == elements.end() && buffer.count > 0) {
      return absl::InvalidArgumentError(absl::StrCat("it gave no '", buffer.name, "'"));
    }
    if (found == elements.end()) continue;
    outputs.push_back({buffer.name, buffer.dtype, std::move(found->second)});
  }
  return outputs;
}

absl::StatusOr<RunReport> FromProto(const v1::PeerReport& report) {
  RunReport run;
  switch (report.outcome()) {
    case v1::OUTCOME_OK:
    case v1::OUTCOME_LAUNCH_FAILED:
    case v1::OUTCOME_FAULTED:
    case v1::OUTCOME_TIMED_OUT:
      run.outcome = static_cast<Outcome>(report.outcome());
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a peer's outcome cannot be ", static_cast<int>(report.outcome())));
  }
  run.message = Utf8(report.message());
  if (!v1::Clock_IsValid(report.clock())) return absl::InvalidArgumentError("no such clock");
  run.clock = static_cast<Clock>(report.clock());
  for (const double sample_ns : report.samples_ns()) {
    if (!(sample_ns > 0 && sample_ns < kSampleNsMax)) {
      return absl::InvalidArgumentError(absl::StrCat("a sample of ", sample_ns, " ns"));
    }
    run.samples_ns.push_back(sample_ns);
  }
  return run;
}

}  // namespace tune::server
