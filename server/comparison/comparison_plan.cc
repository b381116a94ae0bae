// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/wire/nouns.h"
#include "tuner/device/problem_checks.h"

namespace tune::server {
namespace {

constexpr int kEntriesMax = 16;
constexpr int kProblemsMax = 64;
constexpr uint32_t kRounds = 7;
constexpr uint32_t kRoundsMax = 101;
constexpr double kLegSecondsMax = 10;
constexpr size_t kLabelMax = 64;
constexpr absl::Duration kPeersProblemTimeMax = absl::Hours(1);
constexpr absl::Duration kPeersTimeMax = absl::Hours(24);

absl::Status CheckSizes(const v1::SubmitComparisonRequest& request) {
  if (request.entries().empty() || request.entries_size() > kEntriesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a comparison is of 1 to ", kEntriesMax,
                                                   " kernels, not of ", request.entries_size()));
  }
  if (request.sweep_dim().empty() != request.sweep_values().empty() ||
      request.sweep_values_size() > kProblemsMax) {
    return absl::InvalidArgumentError(absl::StrCat("a swept dim has 1 to ", kProblemsMax,
                                                   " values, not ", request.sweep_values_size()));
  }
  if (request.rounds() > kRoundsMax || !(request.leg_seconds() >= 0) ||
      request.leg_seconds() > kLegSecondsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kRoundsMax, " rounds, and ", kLegSecondsMax, " seconds a turn"));
  }
  if (!v1::CacheMode_IsValid(request.cache_mode())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request.cache_mode()));
  }
  if (!request.sweep_dim().empty() && request.dims().contains(request.sweep_dim())) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim ", request.sweep_dim(), " is swept and has one value too"));
  }
  return absl::OkStatus();
}

struct Entry {
  const v1::ComparisonEntry* request = nullptr;
  std::string label;
  NamedKernel named;  // empty of a peer
};

absl::Status CheckPeer(const v1::ComparisonEntry& wanted, bool first) {
  if (first) {
    return absl::InvalidArgumentError(
        "the first of a comparison is a kernel: its spec says the problem and what is right");
  }
  if (wanted.label().empty()) return absl::InvalidArgumentError("a peer has a label");
  if (wanted.has_config() || wanted.default_config()) {
    return absl::InvalidArgumentError(absl::StrCat(wanted.label(), ": a peer has no config"));
  }
  if (wanted.peer().language().size() > 64 || wanted.peer().versions().size() > 512) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted.label(), ": at most 64 bytes of language and 512 of versions"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Entry>> ResolveEntries(const v1::SubmitComparisonRequest& request,
                                                  const Catalogue& catalogue) {
  std::vector<Entry> entries;
  std::set<std::string> labels;
  for (const v1::ComparisonEntry& wanted : request.entries()) {
    Entry& entry = entries.emplace_back();
    entry.request = &wanted;
    entry.label = wanted.label();
    if (wanted.has_peer()) {
      RETURN_IF_ERROR(CheckPeer(wanted, entries.size() == 1));
    } else {
      const WorkloadRequest kernel = {
          .kernel_name = wanted.kernel_name(),
          .kernel_source = wanted.has_kernel_source() ? &wanted.kernel_source() : nullptr};
      ASSIGN_OR_RETURN(entry.named, ResolveKernel(kernel, catalogue));
      if (entry.label.empty()) entry.label = entry.named.kernel->spec().name;
    }
    if (entry.label.size() > kLabelMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a label has at most ", kLabelMax, " characters"));
    }
    if (!labels.insert(entry.label).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two of the comparison are called '", entry.label,
                       "'; give each a label of its own, as in 'tunectl compare old=softmax ",
                       "new=my/kernel.textproto'"));
    }
    if (wanted.has_config() && wanted.default_config()) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.label, ": ask for a given config or for the default, not for both"));
    }
  }
  return entries;
}

absl::Status Of(const std::string& label, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(label, ": ", status.message()));
}

absl::Status ChooseConfig(const v1::ComparisonEntry& request, const RecordBook& records,
                          const Cancelled& cancelled, ComparedWorkload& item) {
  const Workload& workload = item.workload;
  if (request.has_config() || request.default_config()) {
    item.config_source = request.has_config() ? "given" : "the spec's default";
    ASSIGN_OR_RETURN(item.config, CompleteConfig(workload, FromProto(request.config())));
    return absl::OkStatus();
  }
  RecordQuery query{.kernel_name = workload.kernel().spec().name,
                    .dtype = ToText(workload.problem.dtype),
                    .device = workload.device.view.status.id,
                    .kernel_hash = workload.kernel().hash()};
  for (const auto& [dim, value] : workload.problem.dims) query.dims[dim] = value;
  absl::StatusOr<RecordAnswer> known = records.Lookup(query, cancelled);
  if (known.ok() && known->record != nullptr &&
      workload.kernel().CheckConfig(workload.problem, workload.traits(), known->config).ok()) {
    item.config = std::move(known->config);
    item.config_source = std::move(known->reason);
    return absl::OkStatus();
  }
  if (absl::IsCancelled(known.status())) return known.status();
  item.config_source = "the spec's default: it was never tuned for a device like this";
  ASSIGN_OR_RETURN(item.config, CompleteConfig(workload, {}));
  return absl::OkStatus();
}

// Kernels that share no output cannot be seen to compute the same.
absl::Status CheckSameFunction(const ComparedWorkload& first, const ComparedWorkload& other) {
  for (const std::string& name : OutputNames(other.workload.plan)) {
    const BufferPlan* in_first = FindBuffer(first.workload.plan, name);
    if (in_first != nullptr && IsChecked(in_first->role)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      first.label, " and ", other.label,
      " have no output of the same name, so nothing shows that they compute the same: ",
      first.label, " writes ", absl::StrJoin(OutputNames(first.workload.plan), ", "), "; ",
      other.label, " writes ", absl::StrJoin(OutputNames(other.workload.plan), ", "),
      "; rename the args of one spec"));
}

// Every kernel on one problem, which is the first's.
absl::StatusOr<std::vector<ComparedWorkload>> ResolveProblemOfAll(
    const v1::SubmitComparisonRequest& request, const std::vector<Entry>& entries, Dims dims,
    const DeviceChoice& device, const RecordBook& records, const Cancelled& cancelled) {
  std::string dtype = request.dtype();
  std::vector<ComparedWorkload> items;
  for (const Entry& entry : entries) {
    ComparedWorkload& item = items.emplace_back();
    item.label = entry.label;
    if (entry.request->has_peer()) {
      item.workload = items.front().workload;
      item.config_source = "run by the client";
      item.peer = entry.request->peer();
      continue;
    }
    const auto resolve = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(item.workload, ResolveWorkload(entry.named, dims, dtype, device));
      return ChooseConfig(*entry.request, records, cancelled, item);
    };
    if (absl::Status resolved = resolve(); !resolved.ok()) return Of(entry.label, resolved);
    // The kernel has its files; a copy for each problem and peer may be a thousand times as large.
    item.workload.plan.files = {};
    if (items.size() > 1) {
      RETURN_IF_ERROR(CheckSameFunction(items.front(), item));
      continue;
    }
    for (const auto& [dim, value] : item.workload.problem.dims) dims[dim] = value;
    dtype = ToText(item.workload.problem.dtype);
  }
  return items;
}

}  // namespace

std::vector<std::string> OutputNames(const ProblemPlan& plan) {
  std::vector<std::string> names;
  for (const BufferPlan& buffer : plan.buffers) {
    if (IsChecked(buffer.role)) names.push_back(buffer.name);
  }
  return names;
}

bool ComparisonPlan::HasPeers() const {
  return std::any_of(problems.front().begin(), problems.front().end(),
                     [](const ComparedWorkload& item) { return item.peer.has_value(); });
}

size_t ComparisonPlan::SourceBytes() const {
  size_t bytes = 0;
  for (const ComparedWorkload& item : problems.front()) {
    if (!item.peer) bytes += SourceBytesOf(item.workload.kernel());
  }
  return bytes;
}

absl::Duration ComparisonPlan::TimeMax() const {
  if (!HasPeers()) return absl::InfiniteDuration();
  return std::min(kPeersTimeMax, kPeersProblemTimeMax * static_cast<double>(problems.size()));
}

std::string ComparisonPlan::Subject() const {
  const std::vector<ComparedWorkload>& first = problems.front();
  const std::string labels = absl::StrJoin(
      first, ", ", [](std::string* out, const ComparedWorkload& item) { out->append(item.label); });
  const Problem& problem = first.front().workload.problem;
  if (problems.size() == 1 || run.sweep_dim.empty())
    return absl::StrCat(labels, ": ", ToText(problem));
  const auto size_of = [&](const std::vector<ComparedWorkload>& compared) {
    for (const auto& [name, value] : compared.front().workload.problem.dims) {
      if (name == run.sweep_dim) return value;
    }
    return int64_t{0};
  };
  Problem rest = problem;
  std::erase_if(rest.dims, [&](const auto& dim) { return dim.first == run.sweep_dim; });
  return absl::StrCat(labels, ": ", ToText(rest), ", ", run.sweep_dim, " from ", size_of(first),
                      " to ", size_of(problems.back()), " in ", Counted(problems.size(), "size"));
}

absl::StatusOr<ComparisonPlan> CheckComparison(const v1::SubmitComparisonRequest& request,
                                               const ComparisonTools& tools, absl::Time deadline,
                                               const Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckSizes(request));
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, ResolveEntries(request, tools.catalogue));
  ASSIGN_OR_RETURN(const DeviceChoice device,
                   ChooseDevice(request.device(), tools.devices, deadline, cancelled));
  ComparisonPlan plan{.device_ids = device.ids, .leg_seconds = request.leg_seconds()};
  plan.run.cache_mode = FromProto(request.cache_mode());
  plan.run.seed = request.seed();
  plan.run.rounds = request.rounds() == 0 ? kRounds : request.rounds();
  plan.run.sweep_dim = request.sweep_dim();
  const Dims common(request.dims().begin(), request.dims().end());
  std::vector<Dims> sizes(std::max(1, request.sweep_values_size()), common);
  for (int i = 0; i < request.sweep_values_size(); ++i) {
    sizes[static_cast<size_t>(i)][request.sweep_dim()] = request.sweep_values(i);
  }
  for (const Dims& dims : sizes) {
    if (cancelled()) return absl::CancelledError("cancelled");
    ASSIGN_OR_RETURN(plan.problems.emplace_back(),
                     ResolveProblemOfAll(request, entries, dims, device, tools.records, cancelled));
  }
  return plan;
}

}  // namespace tune::server
