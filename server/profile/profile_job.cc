// SPDX-License-Identifier: Apache-2.0
#include "server/profile/profile_job.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/calibration/calibration_convert.h"
#include "server/kernels/kernel_source.h"
#include "server/profile/profile_convert.h"
#include "server/sweep/submission.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"
#include "tuner/roofline/roofline.h"
#include "tuner/statistics/median.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr int kReadings = 3;

double WrittenBytes(const ProblemPlan& plan) {
  double bytes = 0;
  for (const BufferPlan& buffer : plan.buffers) {
    if (buffer.role != Role::kOutput && buffer.role != Role::kInOut) continue;
    bytes += static_cast<double>(buffer.count) * static_cast<double>(SizeInBytes(buffer.dtype));
  }
  return bytes;
}

bool UsesTensorMaps(const ProgramPlan& plan) {
  const auto is_map = [](const ArgPlan& arg) { return std::holds_alternative<TensorMapPlan>(arg); };
  return std::any_of(plan.steps.begin(), plan.steps.end(), [&](const StepPlan& step) {
    return std::any_of(step.args.begin(), step.args.end(), is_map);
  });
}

// A value as a param of this kind has it: 1 for true, 2 for 2.0. Nothing if it has none such.
std::optional<Value> Like(const Value& kind, const Value& value) {
  if (kind.index() == value.index()) return value;
  const int64_t* integer = std::get_if<int64_t>(&value);
  if (integer == nullptr) return std::nullopt;
  if (std::holds_alternative<double>(kind)) return static_cast<double>(*integer);
  if (std::holds_alternative<bool>(kind) && (*integer == 0 || *integer == 1)) return *integer == 1;
  return std::nullopt;
}

bool CannotRun(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status);
}

}  // namespace

void ProfileJob::Step(const std::string& step) {
  v1::ProfileEvent event;
  event.set_step(step);
  tell_(std::move(event));
}

absl::Status ProfileJob::Run(absl::Time deadline) {
  RETURN_IF_ERROR(ResolveKernel());
  RETURN_IF_ERROR(ResolveProblem(deadline));
  RETURN_IF_ERROR(ChooseConfigs());
  const auto tell = [this](const std::string& holder) {
    Step(absl::StrCat("waiting for ", device_.status.id, ", which ", holder, " has"));
  };
  ASSIGN_OR_RETURN(DeviceTurns::Turn turn,
                   tools_.devices.turns().Take(device_.status.id, "a profile", cancelled_, tell));
  RETURN_IF_ERROR(CompileAll());
  RETURN_IF_ERROR(TimeAll());
  RETURN_IF_ERROR(CountAll());
  return StoreAll();
}

absl::Status ProfileJob::ResolveKernel() {
  ASSIGN_OR_RETURN(set_, FromProto(request_.set()));
  if (!v1::CacheMode_IsValid(request_.cache_mode())) {
    return absl::InvalidArgumentError(absl::StrCat("unknown cache mode ", request_.cache_mode()));
  }
  switch (request_.kernel_case()) {
    case v1::RunProfileRequest::kKernelName: {
      ASSIGN_OR_RETURN(named_, tools_.catalogue.Find(request_.kernel_name()));
      return absl::OkStatus();
    }
    case v1::RunProfileRequest::kKernelSource: {
      ASSIGN_OR_RETURN(named_, ParseKernelSource(request_.kernel_source()));
      return absl::OkStatus();
    }
    case v1::RunProfileRequest::KERNEL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("no kernel: give a name of the catalogue, or a source");
}

absl::Status ProfileJob::ResolveProblem(absl::Time deadline) {
  const Kernel& kernel = *named_.kernel;
  ASSIGN_OR_RETURN(device_, tools_.devices.Choose(request_.device(), deadline));
  const DeviceInfo& info = device_.status.info;
  if (device_.status.state == DeviceState::kUnavailable ||
      device_.status.state == DeviceState::kQuarantined) {
    return absl::UnavailableError(
        absl::StrCat("device ", device_.status.id, " cannot be used: ", device_.status.message));
  }
  if (!kernel.RunsOn(info.target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", kernel.spec().name(), " does not run on ", info.target,
                     "; its targets: ", absl::StrJoin(kernel.spec().targets(), ", ")));
  }
  traits_ = TraitsOf(info);
  const std::map<std::string, int64_t> dims(request_.dims().begin(), request_.dims().end());
  ASSIGN_OR_RETURN(Problem problem, kernel.MakeProblem(dims, request_.dtype(), info.target));
  ASSIGN_OR_RETURN(problem_plan_, kernel.PlanProblem(problem, traits_));
  ASSIGN_OR_RETURN(defaults_, kernel.Defaults(problem, traits_));
  key_ = {.kernel_hash = kernel.hash(),
          .problem = std::move(problem),
          .device_name = info.name,
          .target = info.target,
          .driver = info.driver,
          .compiler = device_.compiler,
          .cache_mode = FromProto(request_.cache_mode())};
  return absl::OkStatus();
}

void ProfileJob::Add(const Config& config) {
  const auto same = [&](const Item& item) { return item.profile.config == config; };
  if (std::any_of(items_.begin(), items_.end(), same)) return;
  Item& item = items_.emplace_back();
  item.profile.config = config;
  item.profile.set = set_;
  item.profile.work = problem_plan_.work;
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
  item.profile.sample_count = trial.measurement.samples_ns.size();
  item.profile.measurement.samples_ns.clear();
}

absl::StatusOr<const std::vector<Trial>*> ProfileJob::KnownTrials() {
  if (!known_) {
    ASSIGN_OR_RETURN(known_, tools_.store.TrialsOfKey(key_));
  }
  return &*known_;
}

absl::Status ProfileJob::AddExplicit(const v1::Config& wanted) {
  Config config = defaults_;
  for (const v1::ConfigEntry& entry : wanted.entries()) {
    const auto param =
        std::find_if(config.entries.begin(), config.entries.end(),
                     [&](const auto& known) { return known.first == entry.param(); });
    if (param == config.entries.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no param '", entry.param(), "'; there is: ",
                       absl::StrJoin(config.entries, ", ", [](std::string* out, const auto& known) {
                         out->append(known.first);
                       })));
    }
    const std::optional<Value> value = Like(param->second, FromProto(entry.value()));
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat("param ", entry.param(), " takes values like ", ToText(param->second)));
    }
    param->second = *value;
  }
  const absl::Status valid = named_.kernel->CheckConfig(key_.problem, traits_, config);
  if (!valid.ok() && wanted.entries().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(valid.message(), "; name a config with --config, or take --best or --top"));
  }
  RETURN_IF_ERROR(valid);
  ASSIGN_OR_RETURN(const std::vector<Trial>* known, KnownTrials());
  for (const Trial& trial : *known) {
    if (trial.config == config) AddTimed(trial);
  }
  Add(config);
  return absl::OkStatus();
}

absl::Status ProfileJob::AddBest() {
  RecordQuery query{.kernel_name = named_.kernel->spec().name(),
                    .dtype = ToText(key_.problem.dtype),
                    .device = device_.status.id,
                    .kernel_hash = key_.kernel_hash};
  for (const auto& [name, value] : key_.problem.dims) query.dims[name] = value;
  absl::StatusOr<RecordAnswer> answer = tools_.records.Lookup(query, cancelled_);
  if (!answer.ok() || answer->record == nullptr || answer->match != Match::kExact) {
    return absl::NotFoundError(absl::StrCat(
        "no record of this problem on ", key_.device_name,
        " yet; tune it with `tunectl sweep ", named_.kernel->spec().name(), "` first"));
  }
  const db::RecordRow& record = *answer->record;
  if (record.key.cache_mode != key_.cache_mode || record.key.driver != key_.driver) {
    Add(record.trial.config);
    return absl::OkStatus();
  }
  AddTimed(record.trial);
  if (items_.back().timed) items_.back().profile.sample_count = record.sample_count;
  return absl::OkStatus();
}

absl::Status ProfileJob::AddTop(uint32_t count) {
  ASSIGN_OR_RETURN(const std::vector<Trial>* known, KnownTrials());
  std::vector<Trial> fastest;
  for (const Trial& trial : *known) {
    if (trial.outcome == Outcome::kOk) fastest.push_back(trial);
  }
  if (fastest.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no config of this problem was tried on ", key_.device_name, " with ",
                     key_.compiler, "; tune it with `tunectl sweep ",
                     named_.kernel->spec().name(), "` first"));
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
  ASSIGN_OR_RETURN(const db::TrialKey key, tools_.store.KeyOfTrial(id));
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

absl::Status ProfileJob::ChooseConfigs() {
  const uint32_t wanted = static_cast<uint32_t>(request_.configs_size() +
                                                request_.trial_ids_size()) +
                          (request_.best() ? 1 : 0);
  if (request_.top() > kProfiledMax || wanted + request_.top() > kProfiledMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kProfiledMax, " configs at once"));
  }
  for (const v1::Config& config : request_.configs()) RETURN_IF_ERROR(AddExplicit(config));
  for (const int64_t id : request_.trial_ids()) RETURN_IF_ERROR(AddTrial(id));
  if (request_.best()) RETURN_IF_ERROR(AddBest());
  if (request_.top() > 0) RETURN_IF_ERROR(AddTop(request_.top()));
  if (items_.empty()) return AddExplicit({});
  return absl::OkStatus();
}

absl::Status ProfileJob::CompileAll() {
  Step(absl::StrCat("compiling ", items_.size(), items_.size() == 1 ? " config" : " configs"));
  ASSIGN_OR_RETURN(CompilePool* pool,
                   tools_.workers.PoolFor(named_.kernel->language(), key_.target));
  ASSIGN_OR_RETURN(CompileResult reference,
                   pool->Compile(problem_plan_.reference.compile, cancelled_));
  if (reference.artifact.outcome != Outcome::kOk) {
    return absl::InvalidArgumentError(
        absl::StrCat("the reference kernel does not compile:\n", reference.artifact.log));
  }
  reference_binary_ = std::move(reference.artifact.binary);
  for (Item& item : items_) {
    absl::StatusOr<ProgramPlan> plan =
        named_.kernel->PlanProgram(key_.problem, traits_, item.profile.config);
    if (!plan.ok()) {
      item.profile.outcome = Outcome::kInvalidConfig;
      item.profile.message = std::string(plan.status().message());
      continue;
    }
    item.plan = *std::move(plan);
    ASSIGN_OR_RETURN(CompileResult result, pool->Compile(item.plan.compile, cancelled_));
    item.profile.outcome = result.artifact.outcome;
    item.profile.resources = result.artifact.resources;
    item.profile.resources.dynamic_shared_bytes = DynamicSharedBytes(item.plan.steps);
    item.binary = std::move(result.artifact.binary);
    if (!Runs(item)) item.profile.message = result.artifact.log.substr(0, kMaxTrialMessageBytes);
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::TimeAll() {
  const auto needs_time = [this](const Item& item) { return Runs(item) && !item.timed; };
  if (!std::any_of(items_.begin(), items_.end(), needs_time)) return absl::OkStatus();
  ASSIGN_OR_RETURN(DeviceSupervisor * device, tools_.workers.FindDevice(device_.status.id));
  ASSIGN_OR_RETURN(const CompilePause quiet, tools_.workers.Quiet(key_.target, cancelled_));
  const std::unique_ptr<DeviceSupervisor> lease = device->MakeTwin("profile");
  RETURN_IF_ERROR(lease->Prepare(problem_plan_, reference_binary_, request_.seed(), cancelled_));
  for (size_t i = 0; i < items_.size(); ++i) {
    if (!needs_time(items_[i])) continue;
    Step(absl::StrCat("timing ", ToText(items_[i].profile.config), " (", i + 1, " of ",
                      items_.size(), ")"));
    RETURN_IF_ERROR(TimeOne(*lease, items_[i]));
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::TimeOne(DeviceSupervisor& lease, Item& item) {
  ASSIGN_OR_RETURN(
      RunReport report,
      lease.Run({{item.plan.steps, item.binary},
                 With(key_.cache_mode, ProfileOfTarget(key_.target).profile)},
                cancelled_));
  Profile& profile = item.profile;
  profile.outcome = report.outcome;
  profile.message = report.message;
  if (report.outcome != Outcome::kOk) return absl::OkStatus();
  profile.measurement = Summarise(report.samples_ns);
  profile.measurement.clock = report.clock;
  profile.measurement.cache_mode = key_.cache_mode;
  profile.sample_count = report.samples_ns.size();
  profile.measurement.samples_ns.clear();
  std::vector<Ceiling> ceilings;
  for (const db::CeilingRow& row : device_.ceilings) ceilings.push_back(row.ceiling);
  const double written = WrittenBytes(problem_plan_);
  const double cached = std::min(written, static_cast<double>(device_.status.info.l2_bytes));
  const Roof roof = RoofFor(profile.work, ceilings, cached, written);
  if (ApplyRoofline(profile.work, roof, profile.measurement)) {
    profile.notes.push_back(
        absl::StrCat("faster than the measured ", roof.bound,
                     " ceiling allows for the declared work: not believed (above_roof)"));
  }
  return absl::OkStatus();
}

void ProfileJob::NotCounted(const std::string& why) {
  for (Item& item : items_) {
    if (Runs(item)) item.profile.message = absl::StrCat("timing only: ", why);
  }
}

absl::Status ProfileJob::CountAll() {
  absl::StatusOr<std::unique_ptr<DeviceSupervisor>> lease =
      tools_.workers.MakeCountingSupervisor(device_.status.id);
  if (!lease.ok()) {
    NotCounted(std::string(lease.status().message()));
    return absl::OkStatus();
  }
  const absl::Status prepared =
      (*lease)->Prepare(problem_plan_, reference_binary_, request_.seed(), cancelled_);
  if (absl::IsCancelled(prepared)) return prepared;
  if (!prepared.ok()) {
    NotCounted(std::string(prepared.message()));
    return CannotRun(prepared) ? prepared : absl::OkStatus();
  }
  ProfileScene scene{.written_bytes = WrittenBytes(problem_plan_),
                     .l2_bytes = static_cast<double>(device_.status.info.l2_bytes)};
  absl::StatusOr<db::CalibrationRow> calibration =
      tools_.store.LatestCalibration(key_.device_name, "");
  if (calibration.ok()) scene.multipliers = MultipliersOf(calibration->entries);
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    if (!Runs(item)) continue;
    Step(absl::StrCat("counting ", ToText(item.profile.config), " (", i + 1, " of ", items_.size(),
                      ")"));
    CountRequest request{.program = {item.plan.steps, item.binary},
                         .set = set_,
                         .cache_mode = key_.cache_mode,
                         .readings = kReadings};
    if (absl::StartsWith(item.profile.work.peak, "tensor_")) {
      request.tensor_quantity = item.profile.work.peak;
    }
    ASSIGN_OR_RETURN(CountReport report, (*lease)->Count(request, cancelled_));
    scene.uses_tensor_maps = UsesTensorMaps(item.plan);
    ApplyCounts(report, scene, item.profile);
  }
  return absl::OkStatus();
}

absl::Status ProfileJob::StoreAll() {
  const Kernel& kernel = *named_.kernel;
  RETURN_IF_ERROR(tools_.store.PutKernel({.hash = kernel.hash(),
                                          .name = kernel.spec().name(),
                                          .spec_name = named_.spec_name,
                                          .spec_text = kernel.spec_text(),
                                          .files = kernel.files()}));
  for (Item& item : items_) {
    item.profile.profiled_unix_ms = absl::ToUnixMillis(absl::Now());
    db::ProfileRow row{.key = key_,
                       .kernel_name = kernel.spec().name(),
                       .profile = std::move(item.profile)};
    ASSIGN_OR_RETURN(row.profile.id, tools_.store.AppendProfile(row));
    v1::ProfileEvent event;
    *event.mutable_profile() = ToProto(row);
    tell_(std::move(event));
  }
  return absl::OkStatus();
}

}  // namespace tune::server
