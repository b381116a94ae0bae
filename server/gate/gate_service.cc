// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/gate/gate_convert.h"
#include "server/gate/gate_evidence.h"
#include "server/gate/gate_history.h"
#include "server/gate/gate_resample.h"
#include "server/kernels/kernel_source.h"
#include "server/rpc/page.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "server/workload/workload.h"
#include "tuner/statistics/distributions.h"

namespace tune::server {
namespace {

constexpr uint32_t kResampledMax = 100000;
constexpr absl::Duration kResampleCap = absl::Seconds(60);
constexpr absl::Duration kReadCap = absl::Minutes(10);  // a run of a thousand kernels takes seconds
constexpr uint32_t kResampled = 300;
constexpr int kStudiesMax = 64;
constexpr int kBaselineKernelsMax = 1000;
constexpr size_t kNameMax = 64;

absl::Status CheckBaselineName(const std::string& name) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  };
  if (!name.empty() && name.size() <= kNameMax && std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no name for a baseline: 1 to ",
                                                 kNameMax, " letters, digits and - _ . /"));
}

absl::Status ResampleStudies(const v1::ResampleGateRequest& request, db::GateStore& store,
                             const Cancelled& cancelled, v1::ResampleGateResponse& response) {
  const uint32_t runs = request.runs() == 0 ? kResampled : request.runs();
  if (runs > kResampledMax || request.run_ids().empty() || request.run_ids_size() > kStudiesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs 1 to ", kStudiesMax, " studies and at most ", kResampledMax, " runs"));
  }
  std::vector<GateEvidence> studies;
  std::set<int64_t> ids;
  for (const int64_t id : request.run_ids()) {
    if (!ids.insert(id).second) {
      return absl::InvalidArgumentError(absl::StrCat("run ", id, " is given twice"));
    }
    ASSIGN_OR_RETURN(studies.emplace_back(), LoadEvidence(store, id, cancelled));
    if (studies.back().run.kind != db::GateKind::kStudy) {
      return absl::InvalidArgumentError(absl::StrCat("run ", id, " is no study"));
    }
  }
  ASSIGN_OR_RETURN(const Resampled resampled, Resample(studies, runs, request.seed(), cancelled));
  response.set_runs(resampled.runs);
  response.set_failed_runs(resampled.failed_runs);
  response.set_failed_bound(ClopperPearson(resampled.failed_runs, resampled.runs, 0.95).high);
  response.set_kernels(resampled.kernels);
  response.set_rounds(resampled.rounds);
  response.set_flagged_per_run(resampled.flagged_per_run);
  response.set_autocorrelation_max(resampled.autocorrelation_max);
  for (const auto& [kernel, failures] : resampled.failures) {
    (*response.mutable_failures())[kernel] = failures;
  }
  return absl::OkStatus();
}

}  // namespace

void GateService::Hide(const db::JobRow& job, v1::GateRun& run) const {
  for (v1::GateKernel& kernel : *run.mutable_kernels()) {
    HideUnlessSeen(NameSpaceIn(kernel.name()), kernel);
  }
  if (job.state != db::JobState::kFailed || job.owner.empty() || IsCaller(job.owner)) return;
  if (!tools_.principals.IsOperator(job.owner)) HideWords(job.owner, run);
}

grpc::ServerUnaryReactor* GateService::ListGates(grpc::CallbackServerContext* context,
                                                 const v1::ListGatesRequest* request,
                                                 v1::ListGatesResponse* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const Page page, PageOf(*request));
    ASSIGN_OR_RETURN(const std::vector<db::GateRunRow> runs,
                     store_.ListGateRuns(page.limit, page.before_id));
    if (!runs.empty()) response->set_next_page_token(absl::StrCat(runs.back().id));
    for (const db::GateRunRow& run : runs) {
      v1::GateRun* proto = response->add_runs();
      *proto = ToProto(run);
      Hide(run.job, *proto);
      ASSIGN_OR_RETURN(const std::vector<db::GateVerdictRow> verdicts, store_.GateVerdicts(run.id));
      for (const db::GateVerdictRow& verdict : verdicts) {
        ++(*proto->mutable_verdicts())[gate::ToText(verdict.judgement.verdict)];
      }
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GateService::GetGate(grpc::CallbackServerContext* context,
                                               const v1::GetGateRequest* request,
                                               v1::GateRun* response) {
  const auto get = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const GateEvidence evidence,
                     LoadEvidence(store_, request->run_id(), cancelled));
    *response = ToProto(evidence, evidence.verdicts,
                        request->with_rounds() ? Rounds::kInclude : Rounds::kOmit);
    Hide(evidence.run.job, *response);
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.heavy, context, kReadCap, get);
}

grpc::ServerUnaryReactor* GateService::RecomputeGate(grpc::CallbackServerContext* context,
                                                     const v1::RecomputeGateRequest* request,
                                                     v1::RecomputeGateResponse* response) {
  const auto recompute = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const GateEvidence evidence,
                     LoadEvidence(store_, request->run_id(), cancelled));
    ASSIGN_OR_RETURN(const auto verdicts, Recompute(evidence, cancelled));
    *response->mutable_run() = ToProto(evidence, verdicts, Rounds::kInclude);
    Hide(evidence.run.job, *response->mutable_run());
    for (const db::GateKernelRow& kernel : evidence.kernels) {
      auto stored = evidence.verdicts.find(kernel.id);
      if (stored == evidence.verdicts.end()) {
        response->add_differences(absl::StrCat(kernel.name, ": has no stored verdict"));
        continue;
      }
      if (!SeesWordsOf(NameSpaceIn(kernel.name))) continue;
      for (const std::string& difference :
           Differences(kernel.name, stored->second, verdicts.at(kernel.id))) {
        response->add_differences(Utf8(difference));
      }
    }
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.heavy, context, kReadCap, recompute);
}

grpc::ServerUnaryReactor* GateService::ResampleGate(grpc::CallbackServerContext* context,
                                                    const v1::ResampleGateRequest* request,
                                                    v1::ResampleGateResponse* response) {
  return AnswerOn(tools_.executors.heavy, context, kResampleCap,
                  [=, this](const Cancelled& cancelled) {
                    return ResampleStudies(*request, store_, cancelled, *response);
                  });
}

grpc::ServerUnaryReactor* GateService::SetBaseline(grpc::CallbackServerContext* context,
                                                   const v1::SetBaselineRequest* request,
                                                   v1::SetBaselineResponse* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(CheckBaselineName(request->name()));
    if (request->kernels().empty() || request->kernels_size() > kBaselineKernelsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("a baseline has 1 to ", kBaselineKernelsMax, " kernels"));
    }
    std::vector<db::KernelRow> kernels;
    std::vector<db::BaselineRow> rows;
    for (const v1::KernelSource& source : request->kernels()) {
      ASSIGN_OR_RETURN(const NamedKernel named, ParseKernelSource(source));
      kernels.push_back(ToRow(named));
      rows.push_back({.name = request->name(),
                      .kernel_name = named.kernel->spec().name,
                      .kernel_hash = named.kernel->hash(),
                      .label = request->label().substr(0, 200),
                      .set_unix_ms = absl::ToUnixMillis(absl::Now())});
      *response->add_kernels() = ToProto(rows.back());
    }
    return store_.SetBaseline(kernels, rows);
  });
}

grpc::ServerUnaryReactor* GateService::ListBaselines(grpc::CallbackServerContext* context,
                                                     const v1::ListBaselinesRequest* request,
                                                     v1::ListBaselinesResponse* response) {
  return AnswerOn(tools_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const uint32_t limit, PageLimit(*request, Page::kLimitMax));
    // The name and the kernel of the last row before the page; a kernel's name has one line.
    const std::string& token = request->page_token();
    const size_t line = token.rfind('\n');
    if (!token.empty() && line == std::string::npos) return NotAPage();
    ASSIGN_OR_RETURN(const std::vector<db::BaselineRow> rows,
                     token.empty()
                         ? store_.Baselines(limit)
                         : store_.Baselines(limit, token.substr(0, line), token.substr(line + 1)));
    for (const db::BaselineRow& row : rows) *response->add_kernels() = ToProto(row);
    if (rows.size() == limit) {
      response->set_next_page_token(absl::StrCat(rows.back().name, "\n", rows.back().kernel_name));
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* GateService::GetHistory(grpc::CallbackServerContext* context,
                                                  const v1::GetHistoryRequest* request,
                                                  v1::GetHistoryResponse* response) {
  const auto get = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(*response, History(*request, store_, cancelled));
    return absl::OkStatus();
  };
  return AnswerOn(tools_.executors.heavy, context, kReadCap, get);
}

}  // namespace tune::server
