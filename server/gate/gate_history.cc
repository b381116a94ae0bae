// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/spec_dtype.h"
#include "base/status_macros.h"
#include "server/gate/gate_evidence.h"
#include "server/rpc/wanted.h"
#include "server/wire/nouns.h"
#include "server/wire/spec.h"
#include "tuner/statistics/change_points.h"

namespace tune::server {
namespace {

bool Matches(const v1::GetHistoryRequest& request, const db::GateRunRow& run,
             const db::GateKernelRow& kernel) {
  if (!request.device().empty() && request.device() != run.job.device_id &&
      request.device() != run.device_name) {
    return false;
  }
  const std::string dtype = SpecDType(request.dtype());
  if (!dtype.empty() && dtype != ToText(kernel.problem.dtype)) return false;
  for (const auto& [name, value] : request.dims()) {
    const std::pair<std::string, int64_t> wanted(name, value);
    const auto& dims = kernel.problem.dims;
    if (std::find(dims.begin(), dims.end(), wanted) == dims.end()) return false;
  }
  return true;
}

// The functions that kernels compute, as far as their specs say: dims, buffers and a reference that
// has a file of its own. Revisions of a kernel have the same; another kernel of its name does not.
class Functions {
 public:
  explicit Functions(db::KernelStore& store) : store_(store) {}

  // Empty if there is no such kernel, or its spec cannot be read.
  const std::string& Of(const std::string& kernel_hash) {
    const auto [known, is_new] = known_.emplace(kernel_hash, "");
    if (!is_new || kernel_hash.empty()) return known->second;
    const absl::StatusOr<db::KernelRow> row = store_.GetKernel(kernel_hash);
    if (!row.ok()) return known->second;
    const absl::StatusOr<WrittenSpec> written = ReadSpec(row->spec_name, row->spec_text);
    if (written.ok()) known->second = TextOf(written->spec, *row);
    return known->second;
  }

 private:
  static std::string TextOf(const KernelSpec& spec, const db::KernelRow& row) {
    std::string text;
    for (const DimSpec& dim : spec.dims) absl::StrAppend(&text, "dim ", dim.name, "\n");
    for (const ArgSpec& arg : spec.args) {
      if (RoleOf(arg) == Role{} || RoleOf(arg) == Role::kScratch) continue;
      absl::StrAppend(&text, "buffer ", arg.name, " ", static_cast<int>(RoleOf(arg)), "\n");
    }
    if (!spec.reference || spec.reference->source == spec.source) return text;
    const auto file = row.files.find(spec.reference->source);
    if (file != row.files.end()) absl::StrAppend(&text, file->second);
    return text;
  }

  db::KernelStore& store_;
  std::map<std::string, std::string> known_;  // by hash
};

// The point of one side; nothing without rounds.
void AddPoint(const db::GateRunRow& run, const std::string& label, const Config& config,
              std::vector<double> rounds_ns, v1::HistorySeries& series) {
  std::erase_if(rounds_ns, [](double ns) { return ns <= 0; });
  if (rounds_ns.empty()) return;
  std::sort(rounds_ns.begin(), rounds_ns.end());
  const size_t half = rounds_ns.size() / 2;
  v1::HistoryPoint* point = series.add_points();
  point->set_label(Utf8(label));
  point->set_run_id(run.id);
  point->set_started_unix_ms(run.job.started_unix_ms);
  point->set_latency_ns(rounds_ns.size() % 2 == 1 ? rounds_ns[half]
                                                  : (rounds_ns[half - 1] + rounds_ns[half]) / 2);
  point->set_latency_ns_low(rounds_ns.front());
  point->set_latency_ns_high(rounds_ns.back());
  point->set_rounds(static_cast<uint32_t>(rounds_ns.size()));
  *point->mutable_config() = ToProto(config);
}

// The rounds of one run had both sides at the same time, so they tell by themselves whether its
// head changed, however few runs there are.
struct Pair {
  size_t head_index = 0;
  double p = 1;  // of its rounds
};

// What the levels of the series tell, and what the two sides of a run tell where the levels do not.
void FindChanges(double least_change, const std::vector<Pair>& pairs, v1::HistorySeries& series) {
  std::vector<double> values;
  for (const v1::HistoryPoint& point : series.points()) values.push_back(point.latency_ns());
  ChangePointOptions options;
  if (least_change > 0) options.least_change = least_change;
  std::vector<ChangePoint> changes = FindChangePoints(values, options);
  for (const Pair& pair : pairs) {
    const auto known = [&](const ChangePoint& change) { return change.index == pair.head_index; };
    if (std::any_of(changes.begin(), changes.end(), known)) continue;
    const ChangePoint change = {.index = pair.head_index,
                                .before = values[pair.head_index - 1],
                                .after = values[pair.head_index],
                                .p = pair.p};
    if (change.p > options.p_max) continue;
    if (std::abs(change.after / change.before - 1) < options.least_change) continue;
    changes.push_back(change);
  }
  std::sort(changes.begin(), changes.end(),
            [](const ChangePoint& a, const ChangePoint& b) { return a.index < b.index; });
  for (const ChangePoint& change : changes) {
    v1::HistoryChange* proto = series.add_changes();
    proto->set_index(static_cast<uint32_t>(change.index));
    proto->set_before_ns(change.before);
    proto->set_after_ns(change.after);
    proto->set_p(change.p);
  }
}

}  // namespace

absl::StatusOr<v1::GetHistoryResponse> History(const v1::GetHistoryRequest& request,
                                               db::Store& store, const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const std::vector<db::GateKernelRow> kernels,
                   store.GateKernelsNamed(request.kernel_name()));
  Functions functions(store);
  std::map<std::string, v1::HistorySeries> series;
  std::map<std::string, std::vector<Pair>> pairs;
  for (const db::GateKernelRow& kernel : kernels) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    ASSIGN_OR_RETURN(const db::GateRunRow run, store.GetGateRun(kernel.run_id));
    if (!Matches(request, run, kernel)) continue;
    ASSIGN_OR_RETURN(const std::vector<EvidenceRound> rounds,
                     LoadRounds(store, kernel.id, run.rules));
    std::vector<double> base_ns;
    std::vector<double> head_ns;
    std::vector<double> log_ratios;
    for (const EvidenceRound& round : rounds) {
      if (round.stage == gate::Stage::kRecovery) continue;
      base_ns.push_back(round.base_ns);
      head_ns.push_back(round.head_ns);
      if (round.base_ns > 0 && round.head_ns > 0) {
        log_ratios.push_back(std::log(round.head_ns / round.base_ns));
      }
    }
    const auto key_of = [&](const std::string& kernel_hash) {
      return absl::StrCat(run.device_name, "\n", ToText(kernel.problem), "\n",
                          ToText(run.cache_mode), "\n", functions.Of(kernel_hash));
    };
    const auto series_of = [&](const std::string& kernel_hash) -> v1::HistorySeries& {
      v1::HistorySeries& one = series[key_of(kernel_hash)];
      one.set_kernel_name(kernel.name);
      *one.mutable_problem() = ToProto(kernel.problem);
      one.set_device_name(run.device_name);
      one.set_kernel_hash(kernel_hash);
      return one;
    };
    if (!base_ns.empty()) {
      AddPoint(run, run.base_label, kernel.base_config, base_ns,
               series_of(kernel.base_kernel_hash));
    }
    if (request.heads() || run.kind == db::GateKind::kHistory) {
      v1::HistorySeries& one = series_of(kernel.head_kernel_hash);
      const int before = one.points_size();
      AddPoint(run, run.head_label, kernel.head_config, head_ns, one);
      const std::string key = key_of(kernel.head_kernel_hash);
      if (!log_ratios.empty() && key == key_of(kernel.base_kernel_hash)) {
        pairs[key].push_back({static_cast<size_t>(before), PairedP(log_ratios)});
      }
    }
  }
  v1::GetHistoryResponse response;
  for (auto& [key, one] : series) {
    RETURN_IF_ERROR(CheckWanted(cancelled));
    if (one.points().empty()) continue;
    FindChanges(request.least_change(), pairs[key], one);
    *response.add_series() = std::move(one);
  }
  return response;
}

}  // namespace tune::server
