// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_job.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "server/access/principal.h"
#include "server/measure/compile_set.h"
#include "server/profile/profile_convert.h"
#include "server/records/shipped_records.h"
#include "server/wire/nouns.h"
#include "server/workload/keep_kernels.h"
#include "tuner/device/program_checks.h"
#include "tuner/device_profile.h"
#include "tuner/statistics/median.h"

namespace tune::server {
namespace {

constexpr int kReadings = 3;

bool UsesTensorMaps(const ProgramPlan& plan) {
  const auto is_map = [](const ArgPlan& arg) { return std::holds_alternative<TensorMapPlan>(arg); };
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const StepPlan& step) {
    return std::any_of(step.args.begin(), step.args.end(), is_map);
  });
}

}  // namespace

absl::Status TimeProfiled(Session& session, const RunRequest& request, const Roof& roof,
                          Profile& profile) {
  ASSIGN_OR_RETURN(Leg leg, session.Measure(0, request));
  RunReport& report = leg.report;
  profile.outcome = report.outcome;
  profile.message = report.message;
  if (report.outcome != Outcome::kOk) return absl::OkStatus();
  profile.measurement = Summarise(report.samples_ns);
  profile.measurement.clock = report.clock;
  profile.measurement.cache_mode = request.policy.cache_mode;
  profile.measurement.samples_ns.clear();
  if (ApplyRoofline(profile.work, roof, profile.measurement)) {
    profile.notes.push_back(
        absl::StrCat("faster than the measured ", ToText(roof.bound),
                     " ceiling allows for the declared work: not believed (above_roof)"));
  }
  return absl::OkStatus();
}

JobKind ProfileKind(const ProfileTools& tools, const Principals& principals) {
  return MakeJobKind<v1::SubmitProfileRequest>(
      db::JobKind::kProfile, "a profile",
      [tools, &principals](const v1::SubmitProfileRequest& request,
                           const Asker& asker) -> absl::StatusOr<AskedJob> {
        const std::string name_space = NameSpaceOf(asker.principal);
        const auto profile = std::make_shared<ProfileJob>(tools, request, name_space);
        RETURN_IF_ERROR(profile->Check(asker.deadline, asker.cancelled));
        const Workload& workload = profile->workload();
        return AskedJob{.subject = NameIn(name_space, workload.Subject()),
                        .devices = workload.device.ids,
                        .work = profile,
                        .keep_sources = KeepKernels({workload.named}, asker.principal, principals,
                                                    tools.store)};
      });
}

absl::Status ProfileJob::Check(absl::Time deadline, const Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckRequest());
  ASSIGN_OR_RETURN(workload_, ResolveWorkload(WorkloadOf(request_, name_space_), tools_.catalogue,
                                              tools_.devices, deadline, cancelled));
  const DeviceInfo& info = workload_.device.view.status.info;
  ASSIGN_OR_RETURN(
      const CompilerInfo compiler,
      tools_.workers.compilers().Info(workload_.kernel().language(), info.target, cancelled));
  key_ = {.kernel_hash = workload_.kernel().hash(),
          .problem = workload_.problem,
          .device_name = info.name,
          .target = info.target,
          .driver = info.driver,
          .compiler = compiler.version,
          .cache_mode = FromProto(request_.cache_mode()),
          .include_digest = IncludeDigestOf(workload_.kernel(), tools_.workers.include_roots())};
  return ChooseConfigs(cancelled);
}

JobWork::End ProfileJob::Run(JobContext& context) {
  const auto run = [&]() -> absl::Status {
    RETURN_IF_ERROR(TakeDevice(context));
    RETURN_IF_ERROR(CompileAll(context));
    RETURN_IF_ERROR(TimeAll(context));
    RETURN_IF_ERROR(CountAll(context));
    return StoreAll(context);
  };
  return {.status = run()};
}

absl::Status ProfileJob::CheckRequest() {
  ASSIGN_OR_RETURN(set_, FromProto(request_.set()));
  if (v1::CacheMode_IsValid(request_.cache_mode())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request_.cache_mode()));
}

void ProfileJob::Add(const Config& config) {
  const auto same = [&](const Item& item) { return item.profile.config == config; };
  if (std::any_of(items_.begin(), items_.end(), same)) return;
  Item& item = items_.emplace_back();
  item.profile.config = config;
  item.profile.set = set_;
  item.profile.work = workload_.plan.work;
}

// The time of a trial serves, unless it was cut short.
void ProfileJob::AddTimed(const Trial& trial) {
  const size_t before = items_.size();
  Add(trial.config);
  const bool serves = trial.outcome == Outcome::kOk && !trial.measurement.stopped_early &&
                      trial.measurement.latency_ns_median > 0;
  if (items_.size() == before || !serves) return;
  Item& item = items_.back();
  item.timed = true;
  item.profile.trial_id = trial.id;
  item.profile.sweep_id = trial.sweep_id;
  item.profile.measurement = trial.measurement;
  item.profile.measurement.samples_ns.clear();
}

absl::StatusOr<const std::vector<Trial>*> ProfileJob::KnownTrials() {
  if (!known_) {
    ASSIGN_OR_RETURN(known_, tools_.store.TrialsOfKey(key_));
  }
  return &*known_;
}

absl::Status ProfileJob::AddExplicit(const v1::Config& wanted) {
  absl::StatusOr<Config> config = CompleteConfig(workload_, FromProto(wanted));
  if (!config.ok() && wanted.entries().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.status().message(), "; name a config with --config, or take --best or --top"));
  }
  RETURN_IF_ERROR(config.status());
  ASSIGN_OR_RETURN(const std::vector<Trial>* known, KnownTrials());
  for (const Trial& trial : *known) {
    if (trial.config == *config) AddTimed(trial);
  }
  Add(*config);
  return absl::OkStatus();
}

absl::Status ProfileJob::AddBest(const Cancelled& cancelled) {
  absl::StatusOr<RecordAnswer> answer = tools_.records.Lookup(
      QueryFor(workload_.kernel(), workload_.problem, workload_.device.view.status.id), cancelled);
  if (!answer.ok() || answer->record == nullptr || answer->match != lookup::Match::kExact) {
    return absl::NotFoundError(absl::StrCat("no record of this problem on ", key_.device_name,
                                            " yet; tune it with `tunectl sweep ",
                                            workload_.kernel().spec().name, "` first"));
  }
  const lookup::Record& record = *answer->record;
  const bool measured_here = !IsShipped(record) && record.key.driver == key_.driver;
  if (!measured_here || record.key.cache_mode != key_.cache_mode) {
    Add(record.trial.config);
    return absl::OkStatus();
  }
  AddTimed(record.trial);
  return absl::OkStatus();
}

absl::Status ProfileJob::AddTop(uint32_t count) {
  ASSIGN_OR_RETURN(const std::vector<Trial>* known, KnownTrials());
  std::vector<Trial> fastest;
  for (const Trial& trial : *known) {
    if (trial.outcome == Outcome::kOk) fastest.push_back(trial);
  }
  if (fastest.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no config of this problem was tried on ", key_.device_name, " with ", key_.compiler,
        "; tune it with `tunectl sweep ", workload_.kernel().spec().name, "` first"));
  }
  std::sort(fastest.begin(), fastest.end(), [](const Trial& a, const Trial& b) {
    return a.measurement.latency_ns_median < b.measurement.latency_ns_median;
  });
  if (fastest.size() > count) fastest.resize(count);
  for (const Trial& trial : fastest) AddTimed(trial);
  return absl::OkStatus();
}

absl::Status ProfileJob::AddTrial(int64_t id) {
  absl::StatusOr<Trial> trial = tools_.store.GetTrial(id);
  if (absl::IsNotFound(trial.status())) {
    return absl::NotFoundError(absl::StrCat("no trial ", id, "; see `tunectl trial list`"));
  }
  RETURN_IF_ERROR(trial.status());
  ASSIGN_OR_RETURN(const TrialKey key, tools_.store.KeyOfTrial(id));
  if (key.kernel_hash != key_.kernel_hash || !(key.problem == key_.problem)) {
    return absl::InvalidArgumentError(
        absl::StrCat("trial ", id, " is of another kernel or problem than the one asked for"));
  }
  const bool same_place = key.device_name == key_.device_name && key.driver == key_.driver &&
                          key.cache_mode == key_.cache_mode && key.compiler == key_.compiler;
  if (same_place) {
    AddTimed(*trial);
  } else {
    Add(trial->config);
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::ChooseConfigs(const Cancelled& cancelled) {
  const uint32_t wanted =
      static_cast<uint32_t>(request_.configs_size() + request_.trial_ids_size()) +
      (request_.best() ? 1 : 0);
  if (request_.top() > kProfiledMax || wanted + request_.top() > kProfiledMax) {
    return absl::InvalidArgumentError(absl::StrCat("at most ", kProfiledMax, " configs at once"));
  }
  for (const v1::Config& config : request_.configs()) RETURN_IF_ERROR(AddExplicit(config));
  for (const int64_t id : request_.trial_ids()) RETURN_IF_ERROR(AddTrial(id));
  if (request_.best()) RETURN_IF_ERROR(AddBest(cancelled));
  if (request_.top() > 0) RETURN_IF_ERROR(AddTop(request_.top()));
  if (items_.empty()) return AddExplicit({});
  return absl::OkStatus();
}

absl::Status ProfileJob::TakeDevice(JobContext& context) {
  ASSIGN_OR_RETURN(device_, tools_.devices.Choose(context.device_id(), absl::InfiniteFuture(),
                                                  context.cancelled()));
  const DeviceInfo& info = device_.status.info;
  if (info.name == key_.device_name && info.target == key_.target && info.driver == key_.driver) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("device ", context.device_id(), " is ", info.name, " with driver ", info.driver,
                   " now; the profile was asked for on ", key_.device_name, " with driver ",
                   key_.driver, "; profile again"));
}

absl::Status ProfileJob::CompileAll(JobContext& context) {
  context.Say("compiling " + Counted(items_.size(), "config"));
  const Compilers& compilers = tools_.workers.compilers();
  ASSIGN_OR_RETURN(reference_binary_, compilers.CompileReference(workload_.plan, request_.seed(),
                                                                 context.cancelled()));
  CompileSet set(compilers);
  for (Item& item : items_) {
    absl::StatusOr<ProgramPlan> plan =
        workload_.kernel().PlanProgram(key_.problem, workload_.traits(), item.profile.config);
    if (plan.ok()) {
      item.plan = *std::move(plan);
      set.Add(item.plan, item.compiled);
    } else {
      item.compiled.artifact = {.outcome = Outcome::kInvalidConfig,
                                .log = std::string(plan.status().message())};
    }
  }
  RETURN_IF_ERROR(set.Await(context.cancelled()));
  for (Item& item : items_) {
    Artifact& artifact = item.compiled.artifact;
    item.profile.outcome = artifact.outcome;
    item.profile.resources = artifact.resources;
    item.profile.resources.dynamic_shared_bytes = DynamicSharedBytes(item.plan.steps);
    if (!Runs(item)) item.profile.message = artifact.log.substr(0, kMaxTrialMessageBytes);
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::TimeAll(JobContext& context) {
  const auto needs_time = [this](const Item& item) { return Runs(item) && !item.timed; };
  if (!std::any_of(items_.begin(), items_.end(), needs_time)) return absl::OkStatus();
  ASSIGN_OR_RETURN(DeviceSupervisor * device, tools_.workers.FindDevice(context.device_id()));
  DeviceSession session(*device, tools_.workers.compilers(), "profile", 1, context.cancelled());
  ASSIGN_OR_RETURN(const CompilePause quiet, session.Quiet());
  RETURN_IF_ERROR(
      session.Prepare(0, workload_.plan, reference_binary_, request_.seed(), IfFull::kUseAlone));
  const SamplePolicy policy = With(key_.cache_mode, ProfileOfTarget(key_.target).profile);
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (!needs_time(item)) continue;
    context.Say(absl::StrCat("timing ", ToText(item.profile.config), " (", i + 1, " of ",
                             items_.size(), ")"));
    RETURN_IF_ERROR(TimeProfiled(session, {ProgramOf(item.plan, item.compiled), policy},
                                 RoofOfDevice(), item.profile));
  }
  return absl::OkStatus();
}

Roof ProfileJob::RoofOfDevice() const {
  std::vector<Ceiling> ceilings;
  for (const SeenCeiling& seen : device_.ceilings) ceilings.push_back(seen.row.ceiling);
  return RoofFor(workload_.plan, ceilings, device_.status.info.l2_bytes);
}

void ProfileJob::NotCounted(const std::string& why) {
  for (Item& item : items_) {
    if (Runs(item)) item.profile.message = absl::StrCat("timing only: ", why);
  }
}

absl::Status ProfileJob::CountAll(JobContext& context) {
  absl::StatusOr<std::unique_ptr<DeviceSupervisor>> counting =
      tools_.workers.MakeCountingSupervisor(context.device_id());
  if (!counting.ok()) {
    NotCounted(std::string(counting.status().message()));
    return absl::OkStatus();
  }
  const absl::Status prepared =
      (*counting)->Prepare(workload_.plan, reference_binary_, request_.seed(), context.cancelled());
  if (absl::IsCancelled(prepared)) return prepared;
  if (!prepared.ok()) {
    NotCounted(std::string(prepared.message()));
    return IsVariantsFault(prepared) ? prepared : absl::OkStatus();
  }
  ProfileScene scene{.written_bytes = WrittenBytes(workload_.plan),
                     .l2_bytes = static_cast<double>(device_.status.info.l2_bytes)};
  absl::StatusOr<db::CalibrationRow> calibration =
      tools_.store.LatestCalibration(key_.device_name, "");
  if (calibration.ok()) scene.multipliers = MultipliersOf(calibration->entries);
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (!Runs(item)) continue;
    context.Say(absl::StrCat("counting ", ToText(item.profile.config), " (", i + 1, " of ",
                             items_.size(), ")"));
    CountRequest request{.program = ProgramOf(item.plan, item.compiled),
                         .set = set_,
                         .cache_mode = key_.cache_mode,
                         .readings = kReadings};
    if (absl::StartsWith(item.profile.work.peak, "tensor_")) {
      request.tensor_quantity = item.profile.work.peak;
    }
    ASSIGN_OR_RETURN(CountReport report, (*counting)->Count(request, context.cancelled()));
    scene.uses_tensor_maps = UsesTensorMaps(item.plan);
    ApplyCounts(report, scene, item.profile);
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::StoreAll(JobContext& context) {
  RETURN_IF_ERROR(tools_.store.PutKernel(ToRow(workload_.named)));
  for (Item& item : items_) {
    item.profile.profiled_unix_ms = absl::ToUnixMillis(absl::Now());
    db::ProfileRow row{.key = key_,
                       .kernel_name = NameIn(name_space_, workload_.kernel().spec().name),
                       .job_id = context.job_id(),
                       .profile = std::move(item.profile)};
    ASSIGN_OR_RETURN(row.profile.id, tools_.store.AppendProfile(row));
    context.feed().AddResult(std::make_shared<v1::Profile>(ToProto(row)));
  }
  return absl::OkStatus();
}

}  // namespace tune::server
