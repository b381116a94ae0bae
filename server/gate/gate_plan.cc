// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_plan.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/kernels/kernel_source.h"
#include "server/wire/nouns.h"
#include "server/wire/spec.h"
#include "server/workload/workload.h"

namespace tune::server {
namespace {

constexpr size_t kLabelMax = 200;
constexpr double kLegSecondsMax = 10;
constexpr uint32_t kRoundsMax = 1000;

using BaselineHashes = std::map<std::string, std::string>;  // by kernel

absl::Status CheckShare(const char* name, double value, double most) {
  if (std::isfinite(value) && value >= 0 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " of ", value, "; it must be above 0 and at most ", most));
}

absl::StatusOr<gate::Rules> RulesOf(const v1::GateRules& proto) {
  RETURN_IF_ERROR(CheckShare("a tolerance", proto.delta0(), 1));
  RETURN_IF_ERROR(CheckShare("the largest slowdown", proto.delta_max(), 10));
  RETURN_IF_ERROR(CheckShare("alpha", proto.alpha(), 0.5));
  if (proto.screen_rounds() > kRoundsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(proto.screen_rounds(), " rounds; at most ", kRoundsMax));
  }
  gate::Rules rules;
  if (proto.delta0() > 0) rules.delta0 = proto.delta0();
  if (proto.delta_max() > 0) rules.delta_max = proto.delta_max();
  if (proto.alpha() > 0) rules.alpha = proto.alpha();
  if (proto.screen_rounds() > 0) rules.screen_rounds = static_cast<int>(proto.screen_rounds());
  if (rules.delta_max <= rules.delta0) {
    return absl::InvalidArgumentError(absl::StrCat("the largest slowdown, ", rules.delta_max,
                                                   ", must be above the tolerance, ",
                                                   rules.delta0));
  }
  return rules;
}

absl::Status CheckRequest(const v1::SubmitGateRequest& request) {
  if (request.entries().empty()) return absl::InvalidArgumentError("no kernels to gate");
  if (request.entries_size() > kGateKernelsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.entries_size(), " kernels; at most ", kGateKernelsMax, " a run"));
  }
  for (const std::string* label : {&request.base_label(), &request.head_label()}) {
    if (label->size() > kLabelMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a label of ", label->size(), " characters; at most ", kLabelMax));
    }
  }
  if (!v1::GateKind_IsValid(request.kind())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown kind of run ", request.kind()));
  }
  if (!v1::CacheMode_IsValid(request.cache_mode())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request.cache_mode()));
  }
  return CheckShare("the length of a leg in seconds", request.leg_seconds(), kLegSecondsMax);
}

absl::StatusOr<BaselineHashes> FindBaseline(const std::string& name, db::GateStore& store) {
  ASSIGN_OR_RETURN(const std::vector<db::BaselineRow> rows, store.Baselines());
  BaselineHashes hashes;
  std::set<std::string> known;
  for (const db::BaselineRow& row : rows) {
    known.insert(row.name);
    if (row.name == name) hashes[row.kernel_name] = row.kernel_hash;
  }
  if (!hashes.empty()) return hashes;
  return absl::NotFoundError(absl::StrCat(
      "no baseline '", name, "'; there is: ",
      known.empty() ? "none yet, see `tunectl baseline set`" : absl::StrJoin(known, ", ")));
}

// A run's dims are for the kernels that have them.
absl::StatusOr<GateSide> SideOf(NamedKernel named, const Dims& dims, const std::string& dtype,
                                const DeviceChoice& device) {
  Dims own;
  for (const DimSpec& dim : named.kernel->spec().dims) {
    if (auto it = dims.find(dim.name); it != dims.end()) own.insert(*it);
  }
  ASSIGN_OR_RETURN(Workload workload, ResolveWorkload(std::move(named), own, dtype, device));
  return GateSide{std::move(workload.named), std::move(workload.problem)};
}

absl::StatusOr<GateSide> BaselineSide(const BaselineHashes& baseline, const std::string& kernel,
                                      const std::string& name_space, db::Store& store,
                                      const Dims& dims, const std::string& dtype,
                                      const DeviceChoice& device) {
  auto it = baseline.find(kernel);
  if (it == baseline.end()) {
    return absl::NotFoundError(
        absl::StrCat("the baseline has no kernel '", kernel, "'; see `tunectl baseline list`"));
  }
  ASSIGN_OR_RETURN(db::KernelRow row, store.GetKernel(it->second));
  NamedKernel named{.spec_name = row.spec_name};
  ASSIGN_OR_RETURN(named.kernel, ReadKernel(row.spec_name, row.spec_text, row.files, name_space));
  return SideOf(std::move(named), dims, dtype, device);
}

// The same problem for both: the head's dims are the base's, so far as the head has them.
Dims DimsOf(const Problem& problem, Dims dims) {
  for (const auto& [name, value] : problem.dims) dims[name] = value;
  return dims;
}

absl::Status CheckDimsKnown(const Dims& dims, const std::vector<GateSubject>& subjects) {
  for (const auto& [name, value] : dims) {
    bool known = false;
    std::set<std::string> names;
    for (const GateSubject& subject : subjects) {
      for (const auto& [dim, size] : subject.head.problem.dims) {
        known = known || dim == name;
        names.insert(dim);
      }
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("no kernel has the dim '", name,
                                                     "'; there is: ", absl::StrJoin(names, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t GatePlan::SourceBytes() const {
  size_t bytes = 0;
  for (const GateSubject& subject : subjects) {
    bytes += SourceBytesOf(subject.head.kernel());
    if (subject.base) bytes += SourceBytesOf(subject.base->kernel());
  }
  return bytes;
}

absl::StatusOr<GatePlan> CheckGate(const v1::SubmitGateRequest& request, db::Store& store,
                                   const Devices& devices, absl::Time deadline,
                                   const Cancelled& cancelled, const std::string& name_space) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(const DeviceChoice device,
                   ChooseDevice(request.device(), devices, deadline, cancelled));
  const DeviceInfo& info = device.view.status.info;
  GatePlan plan{
      .name_space = name_space, .device_ids = device.ids, .leg_seconds = request.leg_seconds()};
  db::GateRunRow& run = plan.run;
  if (request.kind() != v1::GATE_KIND_UNSPECIFIED) {
    run.kind = static_cast<db::GateKind>(request.kind());
  }
  run.job.kind = db::JobKind::kGate;
  run.device_name = info.name;
  run.target = info.target;
  run.driver = info.driver;
  run.cache_mode = FromProto(request.cache_mode());
  run.base_label = request.base_label();
  run.head_label = request.head_label();
  run.seed = request.seed();
  ASSIGN_OR_RETURN(run.rules, RulesOf(request.rules()));
  BaselineHashes baseline;
  if (!request.baseline().empty()) {
    ASSIGN_OR_RETURN(baseline, FindBaseline(request.baseline(), store));
  }
  const Dims dims(request.dims().begin(), request.dims().end());
  for (const v1::GateEntry& entry : request.entries()) {
    RETURN_IF_ERROR(CheckShare("a tolerance", entry.tolerance(), 1));
    GateSubject subject{.tolerance = entry.tolerance() > 0 ? entry.tolerance() : -1};
    ASSIGN_OR_RETURN(NamedKernel head, ParseKernelSource(entry.head(), name_space));
    const std::string name = head.kernel->spec().name;
    Dims head_dims = dims;
    if (run.kind != db::GateKind::kHistory) {
      if (request.baseline().empty()) {
        ASSIGN_OR_RETURN(NamedKernel base, ParseKernelSource(entry.base(), name_space));
        ASSIGN_OR_RETURN(subject.base, SideOf(std::move(base), dims, request.dtype(), device));
      } else {
        ASSIGN_OR_RETURN(subject.base, BaselineSide(baseline, name, name_space, store, dims,
                                                    request.dtype(), device));
      }
      head_dims = DimsOf(subject.base->problem, dims);
    }
    ASSIGN_OR_RETURN(subject.head, SideOf(std::move(head), head_dims, request.dtype(), device));
    plan.subjects.push_back(std::move(subject));
  }
  RETURN_IF_ERROR(CheckDimsKnown(dims, plan.subjects));
  const size_t kernels = plan.subjects.size();
  run.job.subject =
      kernels == 1 ? plan.subjects[0].head.kernel().spec().name : absl::StrCat(kernels, " kernels");
  if (!run.base_label.empty()) {
    absl::StrAppend(&run.job.subject, ", ", run.head_label, " against ", run.base_label);
  }
  return plan;
}

}  // namespace tune::server
