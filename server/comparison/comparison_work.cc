// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_work.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/comparison/comparison_convert.h"
#include "server/comparison/peer_order.h"
#include "server/comparison/shared_inputs.h"
#include "server/measure/compile_set.h"
#include "server/workload/keep_kernels.h"
#include "tuner/device/program_checks.h"
#include "tuner/roofline/roofline.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

void NoteWork(const WorkPlan& first, const WorkPlan& own, std::vector<std::string>& notes) {
  for (const auto& [what, theirs, ours] :
       {std::tuple("bytes", first.bytes, own.bytes), std::tuple("FLOPs", first.flops, own.flops)}) {
    if (theirs == ours) continue;
    notes.push_back(
        absl::StrFormat("its spec declares %.4g %s, the first kernel's %.4g, which "
                        "count here",
                        ours, what, theirs));
  }
}

}  // namespace

JobWork::End ComparisonWork::Run(JobContext& context) {
  feed_ = &context.feed();
  cancelled_ = context.cancelled();
  const auto run = [&]() -> absl::Status {
    RETURN_IF_ERROR(OpenDevice(context));
    const absl::Cleanup close = [this] { session_->Close(); };
    leases_.Add(context.job_id(), lease_);
    const absl::Cleanup end = [&] { leases_.Remove(context.job_id()); };
    for (size_t place = 0; place < plan_.problems.size(); ++place) {
      RETURN_IF_ERROR(Compare(place, context));
    }
    return absl::OkStatus();
  };
  return {.status = run()};
}

JobKind ComparisonKind(const ComparisonTools& tools, db::Store& store, Workers& workers,
                       PeerLeases& leases, const Principals& principals) {
  JobKind kind = MakeJobKind<v1::SubmitComparisonRequest>(
      db::JobKind::kComparison, "a comparison",
      [tools, &store, &workers, &leases, &principals](
          const v1::SubmitComparisonRequest& request,
          const Asker& asker) -> absl::StatusOr<AskedJob> {
        ASSIGN_OR_RETURN(ComparisonPlan plan,
                         CheckComparison(request, tools, asker.deadline, asker.cancelled));
        std::vector<NamedKernel> kernels;  // each problem has the same ones
        for (const ComparedWorkload& one : plan.problems.front()) {
          kernels.push_back(one.workload.named);
        }
        AskedJob asked{
            .subject = plan.Subject(),
            .devices = plan.device_ids,
            .keep_sources = KeepKernels(std::move(kernels), asker.principal, principals, store)};
        asked.work = std::make_shared<ComparisonWork>(store, workers, leases, std::move(plan));
        return asked;
      });
  kind.runs_again = false;
  return kind;
}

absl::Status ComparisonWork::OpenDevice(JobContext& context) {
  ASSIGN_OR_RETURN(DeviceSupervisor * device, workers_.FindDevice(context.device_id()));
  {
    context.Say("measuring the ceilings of the device");
    ASSIGN_OR_RETURN(const CompilePause quiet, context.Quiet());
    absl::StatusOr<std::vector<Ceiling>> ceilings = device->Ceilings(cancelled_);
    if (absl::IsCancelled(ceilings.status())) return ceilings.status();
    // Without ceilings there are no shares of them, but there are times.
    if (ceilings.ok()) ceilings_ = *std::move(ceilings);
  }
  device->Close();  // one more process on the device would be a stranger there
  info_ = device->Status().info;
  traits_ = TraitsOf(info_);
  db::ComparisonRow& run = plan_.run;
  run.job.id = context.job_id();
  run.device_name = info_.name;
  run.device_uuid = info_.uuid;
  run.target = info_.target;
  run.driver = info_.driver;
  ASSIGN_OR_RETURN(run.id, store_.AddComparison(run));
  feed_->AddResult(std::make_shared<v1::Comparison>(ToProto(run)));
  random_.seed(run.seed);
  const std::vector<ComparedWorkload>& compared = plan_.problems.front();
  std::vector<size_t> measured;
  for (size_t i = 0; i < compared.size(); ++i) {
    if (!compared[i].peer) measured.push_back(i);
  }
  session_.emplace(*device, workers_.compilers(), "compare", compared.size(), cancelled_);
  rounds_.emplace(*session_, std::move(measured),
                  LegPolicy(info_.target, run.cache_mode, plan_.leg_seconds), run.seed);
  return absl::OkStatus();
}

std::string ComparisonWork::Which(size_t place) const {
  if (plan_.run.sweep_dim.empty()) return "";
  const Problem& problem = plan_.problems[place].front().workload.problem;
  for (const auto& [dim, value] : problem.dims) {
    if (dim != plan_.run.sweep_dim) continue;
    return absl::StrCat(dim, "=", value, " (", place + 1, " of ", plan_.problems.size(), "): ");
  }
  return "";
}

absl::Status ComparisonWork::Compare(size_t place, JobContext& context) {
  Candidates candidates(plan_.problems[place].size());
  context.Say(Which(place) + "compiling");
  RETURN_IF_ERROR(Plan(place, candidates));
  RETURN_IF_ERROR(Compile(candidates));
  ASSIGN_OR_RETURN(const CompilePause quiet, session_->Quiet());
  context.Say(Which(place) + "checking the results against each other");
  RETURN_IF_ERROR(CheckResults(candidates));
  RETURN_IF_ERROR(StoreCandidates(place, candidates));
  for (uint32_t round = 0; round < plan_.run.rounds; ++round) {
    context.Say(absl::StrCat(Which(place), "round ", round + 1, " of ", plan_.run.rounds));
    RETURN_IF_ERROR(MeasureRound(round, candidates));
  }
  return absl::OkStatus();
}

absl::Status ComparisonWork::Plan(size_t place, Candidates& candidates) const {
  for (size_t i = 0; i < candidates.size(); ++i) {
    const ComparedWorkload& item = plan_.problems[place][i];
    const Kernel& kernel = item.workload.kernel();
    Variant& variant = candidates[i].variant;
    db::ComparedRow& row = candidates[i].row;
    candidates[i].item = &item;
    row.comparison_id = plan_.run.id;
    row.place = static_cast<uint32_t>(place);
    row.label = item.label;
    row.kernel_hash = item.peer ? "" : kernel.hash();
    row.kernel_name = item.peer ? item.label : kernel.spec().name;
    row.language = item.peer ? item.peer->language() : ToText(kernel.language());
    row.compiler = item.peer ? item.peer->versions() : "";
    row.problem = item.workload.problem;
    row.config = item.config;
    row.config_source = item.config_source;
    // With what the opened device says of itself.
    ASSIGN_OR_RETURN(variant.problem, kernel.PlanProblem(row.problem, traits_));
    const ProblemPlan& shared = i == 0 ? variant.problem : candidates[0].variant.problem;
    row.work = shared.work;
    row.roof = RoofFor(shared, ceilings_, info_.l2_bytes);
    if (item.peer) continue;
    if (i > 0) NoteWork(row.work, variant.problem.work, row.notes);
    const absl::Status planned = PlanRun(i == 0 ? nullptr : &shared, candidates[i]);
    if (planned.ok()) continue;
    candidates[i].runs = false;
    row.outcome = Outcome::kInvalidConfig;
    row.message = std::string(planned.message());
  }
  return absl::OkStatus();
}

absl::Status ComparisonWork::PlanRun(const ProblemPlan* first, Candidate& candidate) const {
  Variant& variant = candidate.variant;
  db::ComparedRow& row = candidate.row;
  if (first != nullptr) RETURN_IF_ERROR(ShareInputs(*first, variant.problem, row.notes));
  const Kernel& kernel = candidate.item->workload.kernel();
  ASSIGN_OR_RETURN(variant.plan, kernel.PlanProgram(row.problem, traits_, row.config));
  return absl::OkStatus();
}

absl::Status ComparisonWork::Compile(Candidates& candidates) const {
  const Compilers& compilers = workers_.compilers();
  CompileSet set(compilers);
  const auto compiling = [](const Candidate& one) { return one.runs && !one.is_peer(); };
  const auto note = [](const std::string& what, const Artifact& artifact, Candidate& candidate) {
    candidate.runs = artifact.outcome == Outcome::kOk;
    candidate.row.outcome = artifact.outcome;
    if (!candidate.runs) candidate.row.message = what + artifact.log;
  };
  for (Candidate& candidate : candidates) {
    if (!compiling(candidate)) continue;
    const CompilePlan& plan = candidate.variant.plan.compile;
    ASSIGN_OR_RETURN(const CompilerInfo info,
                     compilers.Info(plan.language, plan.target, cancelled_));
    candidate.row.compiler = info.version;
    set.Add(candidate.variant.plan, candidate.variant.compiled);
  }
  RETURN_IF_ERROR(set.Await(cancelled_));
  for (Candidate& candidate : candidates) {
    if (!compiling(candidate)) continue;
    Variant& variant = candidate.variant;
    note("", variant.compiled.artifact, candidate);
    if (!candidate.runs || variant.problem.reference.steps.empty()) continue;
    set.Add(variant.problem.reference, variant.reference);
  }
  RETURN_IF_ERROR(set.Await(cancelled_));
  for (Candidate& candidate : candidates) {
    if (!compiling(candidate)) continue;
    note("the reference: ", candidate.variant.reference.artifact, candidate);
    if (candidate.runs) RETURN_IF_ERROR(CompleteProblem(candidate));
  }
  return absl::OkStatus();
}

absl::Status ComparisonWork::CompleteProblem(Candidate& candidate) const {
  const Compilers& compilers = workers_.compilers();
  ProblemPlan& problem = candidate.variant.problem;
  absl::Status status = compilers.CompileChecker(problem, cancelled_);
  if (status.ok()) status = compilers.ComputeReference(problem, plan_.run.seed, cancelled_);
  if (!absl::IsInvalidArgument(status)) return status;
  candidate.runs = false;
  candidate.row.outcome = Outcome::kCompileFailed;
  candidate.row.message = std::string(status.message());
  return absl::OkStatus();
}

// Against the first that runs: as a rule the first of all.
absl::Status ComparisonWork::CheckResults(Candidates& candidates) {
  std::vector<Candidate*> running;
  for (Candidate& candidate : candidates) {
    if (candidate.is_peer()) continue;
    if (candidate.runs) {
      running.push_back(&candidate);
    } else {
      candidate.row.agreement = Outcome::kInvalidConfig;
      candidate.row.agreement_message = "because it does not run";
    }
  }
  if (running.size() < 2) return CheckPeers(candidates, running.empty() ? nullptr : running[0]);
  std::vector<const Variant*> others;
  for (size_t i = 1; i < running.size(); ++i) others.push_back(&running[i]->variant);
  ASSIGN_OR_RETURN(const std::vector<RunReport> reports,
                   rounds_->CheckOthers(running[0]->variant, others));
  for (size_t i = 0; i < reports.size(); ++i) {
    db::ComparedRow& row = running[i + 1]->row;
    row.agreement = reports[i].outcome;
    row.error = reports[i].error;
    if (row.agreement == Outcome::kOk) continue;
    row.agreement_message =
        absl::StrCat("against the reference of ", running[0]->row.label, ": ", reports[i].message);
  }
  return CheckPeers(candidates, running[0]);
}

absl::Status ComparisonWork::CheckPeers(Candidates& candidates, const Candidate* first) {
  for (Candidate& candidate : candidates) {
    if (!candidate.is_peer()) continue;
    if (first != nullptr) {
      RETURN_IF_ERROR(CheckPeer(*first, candidate));
      continue;
    }
    candidate.runs = false;
    candidate.row.outcome = Outcome::kInvalidConfig;
    candidate.row.message = "no kernel of the comparison runs, so nothing says what is right";
  }
  return absl::OkStatus();
}

absl::Status ComparisonWork::CheckPeer(const Candidate& first, Candidate& peer) {
  ASSIGN_OR_RETURN(PeerTurn turn, AskPeer(first, peer, Purpose::kCheck));
  db::ComparedRow& row = peer.row;
  if (turn.report.outcome != Outcome::kOk) {
    peer.runs = false;
    row.outcome = turn.report.outcome;
    row.message = turn.report.message;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<BufferFile>> outputs =
      OutputsOf(first.variant.problem, std::move(turn.outputs));
  RunReport judged{.outcome = Outcome::kInvalidConfig};
  if (outputs.ok()) {
    ASSIGN_OR_RETURN(judged, rounds_->Judge(first.variant, *outputs));
  } else {
    judged.message = std::string(outputs.status().message());
  }
  row.agreement = judged.outcome;
  row.error = judged.error;
  if (row.agreement == Outcome::kOk) return absl::OkStatus();
  row.agreement_message =
      absl::StrCat("against the reference of ", first.row.label, ": ", judged.message);
  return absl::OkStatus();
}

absl::StatusOr<ComparisonWork::PeerTurn> ComparisonWork::AskPeer(const Candidate& first,
                                                                 const Candidate& peer,
                                                                 Purpose purpose) {
  const auto failed = [](Outcome outcome, const absl::Status& why) {
    return PeerTurn{.report = {.outcome = outcome, .message = std::string(why.message())}};
  };
  absl::StatusOr<v1::PeerOrder> order =
      PeerOrderOf(first.row.problem, first.variant.problem, first.variant.plan, info_,
                  plan_.run.seed, rounds_->policy());
  if (!order.ok()) return failed(Outcome::kLaunchFailed, order.status());
  order->set_job_id(plan_.run.job.id);
  order->set_lease(lease_->token());
  order->set_label(peer.row.label);
  order->set_check(purpose == Purpose::kCheck);
  order->set_number(lease_->Begin(purpose == Purpose::kCheck ? OutputNames(first.variant.problem)
                                                             : std::vector<std::string>()));
  const absl::Duration limit = absl::Seconds(order->seconds_max());
  feed_->AddStep(std::make_shared<v1::PeerOrder>(*std::move(order)));
  absl::StatusOr<PeerAnswer> answer = lease_->Await(limit, cancelled_);
  if (absl::IsCancelled(answer.status())) return answer.status();
  if (!answer.ok()) {
    const bool late = absl::IsAborted(answer.status()) || absl::IsDeadlineExceeded(answer.status());
    return failed(late ? Outcome::kTimedOut : Outcome::kLaunchFailed, answer.status());
  }
  absl::StatusOr<RunReport> report = FromProto(answer->report);
  if (!report.ok()) return failed(Outcome::kLaunchFailed, report.status());
  if (purpose == Purpose::kTime && report->outcome == Outcome::kOk && report->samples_ns.empty()) {
    return failed(Outcome::kLaunchFailed, absl::InternalError("it was not timed"));
  }
  return PeerTurn{*std::move(report), std::move(answer->outputs)};
}

absl::Status ComparisonWork::StoreCandidates(size_t place, Candidates& candidates) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].is_peer()) {
      RETURN_IF_ERROR(store_.PutKernel(ToRow(plan_.problems[place][i].workload.named)));
    }
    db::ComparedRow& row = candidates[i].row;
    row.message = messages_.Cut(std::move(row.message));
    row.agreement_message = messages_.Cut(std::move(row.agreement_message));
    ASSIGN_OR_RETURN(row.id, store_.AddCompared(row));
  }
  return absl::OkStatus();
}

absl::Status ComparisonWork::MeasureRound(uint32_t round, Candidates& candidates) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random_);
  // Whose inputs the peers get: the kernel that they were checked against.
  const auto first = std::find_if(candidates.begin(), candidates.end(), [](const Candidate& one) {
    return !one.is_peer() && one.row.outcome == Outcome::kOk;
  });
  RETURN_IF_ERROR(rounds_->Renew());
  for (const size_t i : order) {
    Candidate& candidate = candidates[i];
    if (!candidate.runs) continue;
    RunReport report;
    if (candidate.is_peer()) {
      ASSIGN_OR_RETURN(PeerTurn turn, AskPeer(*first, candidate, Purpose::kTime));
      report = std::move(turn.report);
    } else {
      ASSIGN_OR_RETURN(report, rounds_->Measure(i, candidate.variant));
    }
    gate::Leg leg{.revision = gate::Revision::kNone,
                  .samples_ns = std::move(report.samples_ns),
                  .clock = report.clock,
                  .telemetry = report.telemetry};
    if (!leg.samples_ns.empty()) leg.median_ns = EstimateMedian(leg.samples_ns).median;
    RETURN_IF_ERROR(store_.AppendComparisonLegs({{.job_id = plan_.run.job.id,
                                                  .compared_id = candidate.row.id,
                                                  .purpose = db::LegPurpose::kComparison,
                                                  .round = static_cast<int>(round),
                                                  .leg = std::move(leg),
                                                  .outcome = report.outcome,
                                                  .message = messages_.Cut(report.message)}}));
    candidate.runs = report.outcome == Outcome::kOk;  // one that fails once would fail again
  }
  return absl::OkStatus();
}

}  // namespace tune::server
