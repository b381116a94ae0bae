// SPDX-License-Identifier: Apache-2.0
#include "server/workload/workload.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/kernels/kernel_source.h"
#include "server/rpc/error_detail.h"
#include "tuner/spelling.h"
#include "tuner/value.h"

namespace tune::server {
namespace {

absl::Status ProblemInvalid(const absl::Status& status, const Kernel& kernel) {
  v1::ErrorDetail detail;
  detail.set_reason(v1::ERROR_REASON_PROBLEM_INVALID);
  detail.set_kernel(kernel.spec().name);
  return WithDetail(status, detail);
}

// Converts `value` to the kind of a param; nullopt if the param has no such value.
std::optional<Value> Like(const Value& kind, const Value& value) {
  if (kind.index() == value.index()) return value;
  const int64_t* integer = std::get_if<int64_t>(&value);
  if (integer == nullptr) return std::nullopt;
  if (std::holds_alternative<double>(kind)) return static_cast<double>(*integer);
  if (std::holds_alternative<bool>(kind) && (*integer == 0 || *integer == 1)) return *integer == 1;
  return std::nullopt;
}

}  // namespace

bool AreAlike(const DeviceInfo& a, const DeviceInfo& b) {
  return a.name == b.name && a.target == b.target && a.driver == b.driver;
}

absl::StatusOr<DeviceView> NamedDevice(const std::string& device, const Devices& devices,
                                       absl::Time deadline, const Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckName("the device", device));
  return devices.Choose(device == kAnyDevice ? "" : device, deadline, cancelled);
}

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& device, const Devices& devices,
                                          absl::Time deadline, const Cancelled& cancelled) {
  DeviceChoice choice;
  ASSIGN_OR_RETURN(choice.view, NamedDevice(device, devices, deadline, cancelled));
  const DeviceStatus& status = choice.view.status;
  if (IsOutOfUse(status)) {
    v1::ErrorDetail detail;
    detail.set_reason(v1::ERROR_REASON_DEVICE_UNUSABLE);
    detail.set_device(status.id);
    return WithDetail(absl::FailedPreconditionError(
                          absl::StrCat("device ", status.id, " cannot be used: ", status.message)),
                      detail);
  }
  choice.traits = TraitsOf(status.info);
  choice.ids = {status.id};
  if (device != kAnyDevice && (device.empty() || DeviceIdOf(device) == status.id)) return choice;
  ASSIGN_OR_RETURN(const std::vector<DeviceView> views, devices.List(deadline, cancelled));
  for (const DeviceView& view : views) {
    const bool usable = !IsOutOfUse(view.status) && AreAlike(view.status.info, status.info);
    if (usable && view.status.id != status.id) choice.ids.push_back(view.status.id);
  }
  return choice;
}

absl::StatusOr<NamedKernel> ResolveKernel(const WorkloadRequest& request,
                                          const Catalogue& catalogue) {
  if (request.kernel_source != nullptr) {
    return ParseKernelSource(*request.kernel_source, request.name_space);
  }
  if (!request.kernel_name.empty()) return catalogue.Find(request.kernel_name);
  return absl::InvalidArgumentError("no kernel: give a name of the catalogue, or a source");
}

absl::StatusOr<Workload> ResolveWorkload(NamedKernel named, const Dims& dims,
                                         const std::string& dtype, const DeviceChoice& device) {
  Workload workload{.named = std::move(named), .device = device};
  const Kernel& kernel = workload.kernel();
  absl::StatusOr<Problem> problem = kernel.MakeProblem(dims, dtype, device.traits.target);
  if (!problem.ok()) return ProblemInvalid(problem.status(), kernel);
  workload.problem = *std::move(problem);
  absl::StatusOr<ProblemPlan> plan = kernel.PlanProblem(workload.problem, device.traits);
  if (!plan.ok()) return ProblemInvalid(plan.status(), kernel);
  workload.plan = *std::move(plan);
  return workload;
}

absl::StatusOr<Workload> ResolveWorkload(const WorkloadRequest& request, const Catalogue& catalogue,
                                         const Devices& devices, absl::Time deadline,
                                         const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(NamedKernel named, ResolveKernel(request, catalogue));
  ASSIGN_OR_RETURN(const DeviceChoice device,
                   ChooseDevice(request.device, devices, deadline, cancelled));
  return ResolveWorkload(std::move(named), request.dims, request.dtype, device);
}

std::string Workload::Subject() const {
  return absl::StrCat(kernel().spec().name, " ", ToText(problem));
}

absl::StatusOr<Config> CompleteConfig(const Workload& workload, const Config& given) {
  const Kernel& kernel = workload.kernel();
  if (given.entries.empty()) return kernel.DefaultConfig(workload.problem, workload.traits());
  ASSIGN_OR_RETURN(Config config, kernel.Defaults(workload.problem, workload.traits()));
  for (const auto& [name, value] : given.entries) {
    const auto param =
        std::find_if(config.entries.begin(), config.entries.end(),
                     [&name = name](const auto& known) { return known.first == name; });
    if (param == config.entries.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the kernel has no parameter '", name, "'; it has: ",
          absl::StrJoin(config.entries, ", ",
                        [](std::string* out, const auto& known) { out->append(known.first); })));
    }
    const std::optional<Value> taken = Like(param->second, value);
    if (!taken) {
      return absl::InvalidArgumentError(
          absl::StrCat("param ", name, " takes values like ", tune::ToText(param->second)));
    }
    param->second = *taken;
  }
  RETURN_IF_ERROR(kernel.CheckConfig(workload.problem, workload.traits(), config));
  return config;
}

size_t SourceBytesOf(const Kernel& kernel) {
  size_t bytes = kernel.spec_text().size();
  for (const auto& [name, text] : kernel.files()) bytes += text.size();
  return bytes;
}

db::KernelRow ToRow(const NamedKernel& named) {
  const Kernel& kernel = *named.kernel;
  return {.hash = kernel.hash(),
          .name = kernel.spec().name,
          .spec_name = named.spec_name,
          .spec_text = kernel.spec_text(),
          .files = kernel.files()};
}

}  // namespace tune::server
