// SPDX-License-Identifier: Apache-2.0
#include "server/gate/gate_runner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/access/principal.h"
#include "server/gate/config_choice.h"
#include "server/gate/gate_convert.h"
#include "server/gate/gate_rounds.h"
#include "server/measure/compile_set.h"
#include "server/measure/message_budget.h"
#include "server/supervision/machine_code.h"
#include "server/workload/workload.h"
#include "tuner/device/program_checks.h"
#include "tuner/gate/gate.h"

namespace tune::server {
namespace {

constexpr int kRecoveryRounds = 5;

GatePhase PhaseOf(gate::Stage stage) {
  switch (stage) {
    case gate::Stage::kScreen:
      return GatePhase::kScreen;
    case gate::Stage::kConfirm:
      return GatePhase::kConfirm;
    case gate::Stage::kRecovery:
      return GatePhase::kRecovery;
  }
  return GatePhase::kNone;
}

// The launches and their arguments, less the entries' names: equal for variants launched alike.
std::string LaunchKey(const ProgramPlan& plan) {
  std::vector<StepPlan> steps = plan.steps;
  for (StepPlan& step : steps) step.launch.entry.clear();
  return StepsKey(steps);
}

BinaryLimit LimitOf(const Limits& limits) {
  return {limits.gate_binary_bytes,
          absl::StrCat("the binaries of this gate have more than ", limits.gate_binary_bytes,
                       " bytes in all; gate fewer kernels at once, or start tunerd with a larger "
                       "--gate-binary-bytes")};
}

// A kernel while it is gated.
struct Candidate {
  std::optional<Variant> base;
  Variant head;
  std::optional<Variant> recovery;
  db::GateKernelRow row;
};

// All there are.
std::vector<Variant*> VariantsOf(Candidate& candidate) {
  std::vector<Variant*> variants;
  if (candidate.base) variants.push_back(&*candidate.base);
  variants.push_back(&candidate.head);
  if (candidate.recovery) variants.push_back(&*candidate.recovery);
  return variants;
}

// One run while it lasts. Not thread-safe.
class GateRun {
 public:
  GateRun(db::Store& store, Workers& workers, GatePlan plan, JobContext& context,
          const TellGateStep& tell)
      : store_(store),
        workers_(workers),
        plan_(std::move(plan)),
        context_(context),
        cancelled_(context.cancelled()),
        tell_(tell),
        random_(plan_.run.seed),
        compiles_(workers.compilers(), LimitOf(workers.limits())) {}
  absl::Status Go();
  int64_t id() const { return plan_.run.id; }

 private:
  absl::Status OpenDevice();
  absl::StatusOr<std::string> CompilerVersions() const;
  absl::Status Plan();
  absl::Status PlanSide(const GateSide& side, const Config& config, Variant& variant) const;
  absl::Status CompileVariants();
  absl::Status CompileReferences();
  void NoteCode(Candidate& candidate) const;
  absl::Status StoreKernels();
  absl::Status Decide();
  absl::Status TimeHeads();
  absl::Status Recover(const std::vector<size_t>& failed);
  absl::StatusOr<gate::RoundResult> MeasureRound(size_t index, gate::Stage stage, int round,
                                                 const Variant& head);
  void Report(GatePhase phase, const std::string& kernel, const std::string& detail = "");
  void PlanRounds(const gate::Gate& gate, size_t wanted);

  db::Store& store_;
  Workers& workers_;
  GatePlan plan_;
  JobContext& context_;
  const Cancelled cancelled_;
  const TellGateStep& tell_;
  std::mt19937_64 random_;
  TargetTraits traits_;
  std::vector<Candidate> candidates_;
  CompileSet compiles_;  // of all candidates
  std::optional<DeviceSession> session_;
  std::optional<GateRounds> rounds_;
  std::optional<gate::Gate> gate_;
  std::vector<std::string> faults_;  // found while measuring, by candidate
  int round_ = 0;
  MessageBudget messages_;
  GateStep step_;
  absl::Time started_ = SteadyNow();
};

void GateRun::Report(GatePhase phase, const std::string& kernel, const std::string& detail) {
  step_.run_id = plan_.run.id;
  step_.phase = phase;
  step_.message = absl::StrCat(ToText(phase), detail.empty() ? "" : ", ", detail);
  step_.kernel = kernel;
  const absl::Duration elapsed = SteadyNow() - started_;
  step_.elapsed_seconds = absl::ToDoubleSeconds(elapsed);
  step_.remaining_seconds = 0;
  if (step_.rounds_done > 0 && step_.rounds_planned > step_.rounds_done) {
    step_.remaining_seconds =
        step_.elapsed_seconds * (step_.rounds_planned - step_.rounds_done) / step_.rounds_done;
  }
  context_.Say(kernel.empty() ? step_.message : absl::StrCat(step_.message, ": ", kernel));
  tell_(step_);
}

absl::Status GateRun::OpenDevice() {
  started_ = SteadyNow();
  plan_.run.job.id = context_.job_id();
  ASSIGN_OR_RETURN(DeviceSupervisor * device, workers_.FindDevice(context_.device_id()));
  session_.emplace(*device, workers_.compilers(), "gate", /*twins=*/2, cancelled_);
  session_->Close();
  const DeviceInfo info = device->Status().info;
  plan_.run.device_uuid = info.uuid;
  plan_.run.driver = info.driver;
  traits_ = TraitsOf(info);
  ASSIGN_OR_RETURN(plan_.run.compiler, CompilerVersions());
  return absl::OkStatus();
}

// Of every language that is gated.
absl::StatusOr<std::string> GateRun::CompilerVersions() const {
  std::set<Language> languages;
  for (const GateSubject& subject : plan_.subjects) {
    languages.insert(subject.head.kernel().language());
    if (subject.base) languages.insert(subject.base->kernel().language());
  }
  std::vector<std::string> versions;
  for (const Language language : languages) {
    ASSIGN_OR_RETURN(CompilerInfo info,
                     workers_.compilers().Info(language, traits_.target, cancelled_));
    versions.push_back(std::move(info.version));
  }
  return absl::StrJoin(versions, ", ");
}

absl::Status GateRun::PlanSide(const GateSide& side, const Config& config, Variant& variant) const {
  ASSIGN_OR_RETURN(variant.problem, side.kernel().PlanProblem(side.problem, traits_));
  ASSIGN_OR_RETURN(variant.plan, side.kernel().PlanProgram(side.problem, traits_, config));
  return absl::OkStatus();
}

absl::Status GateRun::Plan() {
  ASSIGN_OR_RETURN(const std::vector<lookup::Record> records, store_.CurrentRecords());
  for (const GateSubject& subject : plan_.subjects) {
    Candidate& candidate = candidates_.emplace_back();
    db::GateKernelRow& row = candidate.row;
    const GateSide& first = subject.base ? *subject.base : subject.head;
    row.name = NameIn(plan_.name_space, subject.head.kernel().spec().name);
    row.head_kernel_hash = subject.head.kernel().hash();
    row.problem = first.problem;
    row.tolerance = subject.tolerance;
    const absl::Status planned = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const ConfigChoice choice,
                       ChooseConfigs(subject, row.name, records, plan_.run, traits_));
      row.base_config = choice.base;
      row.head_config = choice.head;
      row.config_source = choice.source;
      row.config_record_id = choice.record_id;
      row.head_default = choice.head_default;
      RETURN_IF_ERROR(PlanSide(subject.head, choice.head, candidate.head));
      if (subject.base) {
        RETURN_IF_ERROR(PlanSide(*subject.base, choice.base, candidate.base.emplace()));
      }
      if (!choice.recovery) return absl::OkStatus();
      row.recovery_config = *choice.recovery;
      return PlanSide(subject.head, *choice.recovery, candidate.recovery.emplace());
    }();
    if (!planned.ok()) row.fault = std::string(planned.message());
    if (subject.base) row.base_kernel_hash = subject.base->kernel().hash();
  }
  faults_.resize(candidates_.size());
  return absl::OkStatus();
}

absl::Status GateRun::CompileVariants() {
  Report(GatePhase::kCompiling, "");
  for (Candidate& candidate : candidates_) {
    if (!candidate.row.fault.empty()) continue;
    for (Variant* variant : VariantsOf(candidate)) compiles_.Add(variant->plan, variant->compiled);
  }
  RETURN_IF_ERROR(compiles_.Await(cancelled_));
  for (Candidate& candidate : candidates_) {
    if (!candidate.row.fault.empty()) continue;
    NoteCode(candidate);
    if (candidate.recovery && candidate.recovery->compiled.artifact.outcome != Outcome::kOk) {
      candidate.recovery.reset();
    }
  }
  return absl::OkStatus();
}

void GateRun::NoteCode(Candidate& candidate) const {
  db::GateKernelRow& row = candidate.row;
  const auto note_fault = [&](const char* side, const Artifact& artifact) {
    if (artifact.outcome == Outcome::kOk || !row.fault.empty()) return;
    row.fault = absl::StrCat(side, ": ", ToText(artifact.outcome), ": ",
                             artifact.log.substr(0, kMaxTrialMessageBytes / 2));
  };
  if (candidate.base) note_fault("base", candidate.base->compiled.artifact);
  note_fault("head", candidate.head.compiled.artifact);
  if (!row.fault.empty()) return;
  row.head_code = MachineCodeHash(candidate.head.compiled.artifact);
  if (!candidate.base) return;
  row.base_code = MachineCodeHash(candidate.base->compiled.artifact);
  row.identical = row.base_code == row.head_code &&
                  LaunchKey(candidate.base->plan) == LaunchKey(candidate.head.plan);
}

absl::Status GateRun::CompileReferences() {
  const auto measured = [&](const Candidate& candidate) {
    const bool skipped = candidate.row.identical && plan_.run.kind == db::GateKind::kGate;
    return candidate.row.fault.empty() && !skipped;
  };
  for (Candidate& candidate : candidates_) {
    if (!measured(candidate)) continue;
    for (Variant* variant : VariantsOf(candidate)) {
      if (variant->problem.reference.steps.empty()) continue;
      compiles_.Add(variant->problem.reference, variant->reference);
    }
  }
  RETURN_IF_ERROR(compiles_.Await(cancelled_));
  for (Candidate& candidate : candidates_) {
    if (!measured(candidate)) continue;
    std::string& fault = candidate.row.fault;
    for (Variant* variant : VariantsOf(candidate)) {
      if (variant->reference.artifact.outcome != Outcome::kOk && fault.empty()) {
        fault = ReferenceFault(variant->problem, variant->reference);
      }
      const absl::Status compiled =
          workers_.compilers().CompileChecker(variant->problem, cancelled_);
      if (!compiled.ok() && !absl::IsInvalidArgument(compiled)) return compiled;
      if (!compiled.ok() && fault.empty()) fault = std::string(compiled.message());
    }
  }
  return absl::OkStatus();
}

absl::Status GateRun::StoreKernels() {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const GateSubject& subject = plan_.subjects[i];
    RETURN_IF_ERROR(store_.PutKernel(ToRow(subject.head.named)));
    if (subject.base) RETURN_IF_ERROR(store_.PutKernel(ToRow(subject.base->named)));
    Candidate& candidate = candidates_[i];
    candidate.row.run_id = plan_.run.id;
    candidate.row.fault = messages_.Cut(std::move(candidate.row.fault));
    ASSIGN_OR_RETURN(candidate.row.id, store_.AddGateKernel(candidate.row));
    // What is left of the texts is of no more use.
    for (Variant* side : VariantsOf(candidate)) {
      side->plan.compile = {};
      side->problem.reference.compile = {};
      side->compiled.artifact.log.clear();
      side->reference.artifact.log.clear();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<gate::RoundResult> GateRun::MeasureRound(size_t index, gate::Stage stage, int round,
                                                        const Variant& head) {
  Candidate& candidate = candidates_[index];
  ASSIGN_OR_RETURN(GateRounds::Outcome outcome,
                   rounds_->MeasureRound(candidate.base ? &*candidate.base : nullptr, head));
  const std::string fault = messages_.Cut(outcome.fault);
  std::vector<gate::Leg> legs;
  if (!outcome.fault.empty() && outcome.legs.empty()) {
    // Kept like a leg, so that the verdict can be recomputed.
    outcome.legs.push_back({.leg = {.revision = gate::Revision::kHead},
                            .outcome = Outcome::kLaunchFailed,
                            .message = fault});
  }
  for (db::LegRow& row : outcome.legs) {
    row.job_id = plan_.run.job.id;
    row.gate_kernel_id = candidate.row.id;
    row.purpose = db::ToPurpose(stage);
    row.round = round;
    if (row.message == outcome.fault) row.message = fault;
    if (row.outcome == Outcome::kOk) legs.push_back(row.leg);
  }
  RETURN_IF_ERROR(store_.AppendGateLegs(outcome.legs));
  faults_[index] = fault;
  ++step_.rounds_done;
  return gate::Reduce(legs, plan_.run.rules);
}

void GateRun::PlanRounds(const gate::Gate& gate, size_t wanted) {
  size_t planned = wanted * static_cast<size_t>(plan_.run.rules.screen_rounds);
  if (gate.stage() == gate::Stage::kConfirm) {
    planned = step_.rounds_done;
    for (const size_t index : gate.Wanted()) {
      planned += static_cast<size_t>(gate.confirm_rounds(index));
    }
  }
  step_.rounds_planned = static_cast<uint32_t>(planned);
}

absl::Status GateRun::Decide() {
  std::vector<double> tolerances;
  for (const Candidate& candidate : candidates_) tolerances.push_back(candidate.row.tolerance);
  gate_.emplace(plan_.run.rules, tolerances);
  const bool study = plan_.run.kind == db::GateKind::kStudy;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const db::GateKernelRow& row = candidates_[i].row;
    if (!row.fault.empty()) gate_->SetInvalid(i, row.fault);
    if (row.fault.empty() && row.identical && !study) gate_->SetIdentical(i);
  }
  gate::Stage planned = gate::Stage::kRecovery;
  while (true) {
    const gate::Stage stage = gate_->stage();
    std::vector<size_t> wanted = gate_->Wanted();
    if (wanted.empty() || (study && stage == gate::Stage::kConfirm)) break;
    if (planned != stage) PlanRounds(*gate_, wanted.size());
    planned = stage;
    std::shuffle(wanted.begin(), wanted.end(), random_);
    Report(PhaseOf(stage), "", "starting two processes");
    RETURN_IF_ERROR(rounds_->Renew(/*pair=*/true));
    for (const size_t index : wanted) {
      Report(PhaseOf(stage), candidates_[index].row.name);
      ASSIGN_OR_RETURN(const gate::RoundResult result,
                       MeasureRound(index, stage, round_, candidates_[index].head));
      if (faults_[index].empty()) {
        gate_->Add(index, result);
      } else {
        gate_->SetInvalid(index, faults_[index]);
      }
      if (gate_->stage() != stage) break;  // the last of the screening; the next round is fresh
    }
    ++round_;
  }
  return absl::OkStatus();
}

// The head alone, for the history.
absl::Status GateRun::TimeHeads() {
  step_.rounds_planned = static_cast<uint32_t>(candidates_.size()) * plan_.run.rules.screen_rounds;
  for (round_ = 0; round_ < plan_.run.rules.screen_rounds; ++round_) {
    RETURN_IF_ERROR(rounds_->Renew(/*pair=*/false));
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!candidates_[i].row.fault.empty() || !faults_[i].empty()) continue;
      Report(GatePhase::kTiming, candidates_[i].row.name);
      RETURN_IF_ERROR(MeasureRound(i, gate::Stage::kScreen, round_, candidates_[i].head).status());
    }
  }
  return absl::OkStatus();
}

// The head's own best config against the base's: does tuning again make up for the loss?
absl::Status GateRun::Recover(const std::vector<size_t>& failed) {
  for (int i = 0; i < kRecoveryRounds && !failed.empty(); ++i, ++round_) {
    RETURN_IF_ERROR(rounds_->Renew(/*pair=*/true));
    for (const size_t index : failed) {
      Report(GatePhase::kRecovery, candidates_[index].row.name);
      if (!faults_[index].empty()) continue;
      RETURN_IF_ERROR(
          MeasureRound(index, gate::Stage::kRecovery, round_, *candidates_[index].recovery)
              .status());
    }
  }
  return absl::OkStatus();
}

absl::Status GateRun::Go() {
  RETURN_IF_ERROR(OpenDevice());
  RETURN_IF_ERROR(Plan());
  RETURN_IF_ERROR(CompileVariants());
  RETURN_IF_ERROR(CompileReferences());
  ASSIGN_OR_RETURN(plan_.run.id, store_.AddGateRun(plan_.run));
  context_.feed().AddResult(std::make_shared<v1::GateRun>(ToProto(plan_.run)));
  RETURN_IF_ERROR(StoreKernels());
  ASSIGN_OR_RETURN(const CompilePause quiet, session_->Quiet());
  rounds_.emplace(*session_, LegPolicy(traits_.target, plan_.run.cache_mode, plan_.leg_seconds),
                  random_());
  if (plan_.run.kind == db::GateKind::kHistory) return TimeHeads();
  RETURN_IF_ERROR(Decide());
  if (plan_.run.kind == db::GateKind::kStudy) return absl::OkStatus();
  std::vector<size_t> failed;
  std::vector<db::GateVerdictRow> verdicts;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const gate::Judgement judgement = gate_->Judge(i);
    verdicts.push_back({.gate_kernel_id = candidates_[i].row.id, .judgement = judgement});
    if (judgement.verdict == gate::Verdict::kFail && candidates_[i].recovery) failed.push_back(i);
  }
  RETURN_IF_ERROR(store_.AddGateVerdicts(verdicts));
  return Recover(failed);
}

}  // namespace

std::string ToText(GatePhase phase) {
  switch (phase) {
    case GatePhase::kNone:
      return "";
    case GatePhase::kCompiling:
      return "compiling";
    case GatePhase::kScreen:
      return "screen";
    case GatePhase::kConfirm:
      return "confirm";
    case GatePhase::kRecovery:
      return "recovery";
    case GatePhase::kTiming:
      return "timing";
  }
  return "";
}

absl::StatusOr<int64_t> RunGate(db::Store& store, Workers& workers, GatePlan plan,
                                JobContext& context, const TellGateStep& tell) {
  GateRun run(store, workers, std::move(plan), context, tell);
  RETURN_IF_ERROR(run.Go());
  return run.id();
}

}  // namespace tune::server
