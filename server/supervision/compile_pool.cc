// SPDX-License-Identifier: Apache-2.0
#include "server/supervision/compile_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <future>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/cancelled.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/supervision/host_short.h"
#include "server/worker/convert.h"
#include "server/worker/scratch.h"

namespace tune::server {
namespace {

constexpr int kNiceness = 5;

// May a compiler say this?
bool IsCompilersWord(const worker::v1::Artifact& artifact) {
  if (artifact.outcome() == v1::OUTCOME_OK) return !artifact.binary().empty();
  return artifact.outcome() == v1::OUTCOME_COMPILE_FAILED ||
         artifact.outcome() == v1::OUTCOME_INVALID_CONFIG;
}

// Did the compiler, or a program that it ran, lack memory or space? Then it may succeed another
// time, on a host that does less or under other limits.
bool LackedRoom(absl::string_view log) {
  for (const absl::string_view words :
       {"out of memory", "virtual memory exhausted", "Cannot allocate memory", "std::bad_alloc",
        "Killed signal terminated program", "No space left on device", "Disk quota exceeded",
        "File size limit exceeded", "Too many open files", "Resource temporarily unavailable"}) {
    if (absl::StrContains(log, words)) return true;
  }
  return false;
}

bool LackedDisk(const CompileResult& result) {
  return result.may_pass && (absl::StrContains(result.artifact.log, "No space left on device") ||
                             absl::StrContains(result.artifact.log, "Disk quota exceeded"));
}

// Why no answer came, if the disk is why; else empty.
std::string WhyShortOfDisk(const WorkerAnswer& answer, const WorkerProcess& worker) {
  switch (answer.kind) {
    case WorkerAnswer::Kind::kHostShort:
      return answer.message;
    case WorkerAnswer::Kind::kDied:
    case WorkerAnswer::Kind::kProtocol:
      return worker.WhyDiskFull();
    default:
      return "";
  }
}

CompileResult Blamed(Outcome outcome, std::string log, absl::Duration spent) {
  return {.artifact = {.outcome = outcome,
                       .log = std::move(log),
                       .seconds = absl::ToDoubleSeconds(spent)},
          .may_pass = true};
}

// Empty if there is none of that language.
std::string VersionIn(const std::vector<CompilerInfo>& compilers, Language language) {
  for (const CompilerInfo& compiler : compilers) {
    if (compiler.language == language) return compiler.version;
  }
  return "";
}

}  // namespace

CompilePool::CompilePool(CompilePoolOptions options)
    : options_(std::move(options)), workers_(std::max(1, options_.workers)) {}

CompilePool::~CompilePool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    queue_.clear();
    for (Job* job : running_) job->withdrawn = true;
  }
  changed_.notify_all();
  for (Slot& slot : slots_) slot.thread.join();
}

void CompilePool::Enqueue(const void* owner, std::optional<CompilePlan> plan, Done done) {
  auto job = std::make_unique<Job>();
  job->owner = owner;
  job->sharer = ActingFor::Current();
  job->plan = std::move(plan);
  job->done = std::move(done);
  {
    MutexLock lock(mutex_);
    for (const ShareKey& key : KeysOf(*job)) ++shares_[key].queued;
    queue_.push_back(std::move(job));
    StartSlotFor(*queue_.back());
  }
  changed_.notify_all();
}

void CompilePool::StartSlotFor(const Job& job) {
  // A pool of one worker has a second one for what may not wait for what others have there.
  const bool is_held_up = workers_ == 1 && job.sharer.has_reserve && running_without_reserve_ > 0;
  const int slots_max = is_held_up ? 2 : workers_;
  if (queue_.size() <= idle_ || static_cast<int>(slots_.size()) >= slots_max) return;
  Slot& slot = slots_.emplace_back();
  slot.index = static_cast<int>(slots_.size()) - 1;
  slot.thread = std::thread([this, &slot] { Loop(slot); });
}

bool CompilePool::MayRun(const Job& job) const {
  const int running = static_cast<int>(running_.size());
  if (!job.sharer.has_reserve) {
    return running < workers_ && running_without_reserve_ < std::max(1, workers_ / 2);
  }
  return running < workers_ || (workers_ == 1 && running == running_without_reserve_);
}

CompilePool::Queue::iterator CompilePool::NextJob(const Slot& slot) {
  auto next = queue_.end();
  std::tuple<bool, int, uint64_t, int, uint64_t> least;
  // For a while, those come first that need no new worker.
  const bool has_turn = slot.compiles > 0 && SteadyNow() - slot.origin_since < options_.origin_turn;
  for (auto job = queue_.begin(); job != queue_.end(); ++job) {
    if (!MayRun(**job)) continue;
    const bool is_at_hand = has_turn && (*job)->plan && (*job)->plan->origin == slot.origin;
    const auto& [of_principal, of_owner] = KeysOf(**job);
    const Share& principal = shares_[of_principal];
    const Share& owner = shares_[of_owner];
    const std::tuple had(!is_at_hand, principal.running, principal.served, owner.running,
                         owner.served);
    if (next != queue_.end() && had >= least) continue;
    next = job;
    least = had;
  }
  return next;
}

void CompilePool::Leave(const Job& job) {
  for (const ShareKey& key : KeysOf(job)) {
    const auto share = shares_.find(key);
    if (share->second.queued == 0 && share->second.running == 0) shares_.erase(share);
  }
}

void CompilePool::Submit(const void* owner, CompilePlan plan, Done done) {
  Enqueue(owner, std::move(plan), std::move(done));
}

absl::StatusOr<CompileResult> CompilePool::Await(std::optional<CompilePlan> plan,
                                                 const Cancelled& cancelled) {
  std::promise<absl::StatusOr<CompileResult>> promise;
  std::future<absl::StatusOr<CompileResult>> future = promise.get_future();
  Enqueue(&promise, std::move(plan), [&promise](absl::StatusOr<CompileResult> result) {
    promise.set_value(std::move(result));
  });
  while (future.wait_for(kCancelPollPeriod) != std::future_status::ready) {
    if (!cancelled || !cancelled()) continue;
    Withdraw(&promise);
    return absl::CancelledError("cancelled while compiling");
  }
  // The callback may still be on its way out of set_value.
  Withdraw(&promise);
  return future.get();
}

absl::StatusOr<CompileResult> CompilePool::Compile(const CompilePlan& plan,
                                                   const Cancelled& cancelled) {
  return Await(plan, cancelled);
}

absl::StatusOr<std::vector<CompilerInfo>> CompilePool::Compilers(const Cancelled& cancelled) {
  if (!KnowsCompilers()) {
    RETURN_IF_ERROR(RememberedMissing());
    absl::StatusOr<CompileResult> greeted = Await(std::nullopt, cancelled);
    if (!greeted.ok()) return greeted.status();
  }
  MutexLock lock(mutex_);
  return compilers_;
}

absl::StatusOr<CompilerInfo> CompilePool::Info(Language language, const Cancelled& cancelled) {
  ASSIGN_OR_RETURN(const std::vector<CompilerInfo> compilers, Compilers(cancelled));
  for (const CompilerInfo& compiler : compilers) {
    if (compiler.language == language) return compiler;
  }
  return absl::UnimplementedError(
      absl::StrCat(options_.command.program, " has no compiler of ", ToText(language)));
}

absl::Status CompilePool::RememberedMissing() {
  MutexLock lock(mutex_);
  return SteadyNow() < missing_until_ ? missing_ : absl::OkStatus();
}

void CompilePool::ForgetMissing() {
  MutexLock lock(mutex_);
  missing_until_ = absl::InfinitePast();
}

bool CompilePool::KnowsCompilers() {
  MutexLock lock(mutex_);
  return !compilers_.empty();
}

std::string CompilePool::VersionOf(Language language) {
  MutexLock lock(mutex_);
  return VersionIn(compilers_, language);
}

void CompilePool::Withdraw(const void* owner) {
  MutexLock lock(mutex_);
  std::erase_if(queue_, [&](const auto& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (job->owner != owner) return false;
    for (const ShareKey& key : KeysOf(*job)) --shares_[key].queued;
    Leave(*job);
    return true;
  });
  for (Job* job : running_) {
    if (job->owner == owner) job->withdrawn = true;
  }
  changed_.wait(lock.native(), [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::none_of(running_.begin(), running_.end(),
                        [&](const Job* job) { return job->owner == owner; });
  });
}

absl::Status CompilePool::Pause(const Cancelled& cancelled) {
  MutexLock lock(mutex_);
  ++pauses_;
  while (!changed_.wait_for(lock.native(), kCancelPollPeriod,
                            [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                              return std::all_of(running_.begin(), running_.end(),
                                                 [](const Job* job) { return job->rests; });
                            })) {
    if (!cancelled || !cancelled()) continue;
    --pauses_;
    changed_.notify_all();
    return absl::CancelledError("cancelled while waiting for compiles to end");
  }
  return absl::OkStatus();
}

void CompilePool::Resume() {
  {
    MutexLock lock(mutex_);
    --pauses_;
  }
  changed_.notify_all();
}

absl::StatusOr<CompilePause> CompilePause::Take(const std::vector<CompilePool*>& pools,
                                                const Cancelled& cancelled) {
  CompilePause pause;
  for (CompilePool* pool : pools) {
    RETURN_IF_ERROR(pool->Pause(cancelled));
    pause.pools_.push_back(pool);
  }
  return pause;
}

void CompilePool::Loop(Slot& slot) {
  MutexLock lock(mutex_);
  while (!stopping_) {
    ++idle_;
    auto next = queue_.end();
    const bool woken = changed_.wait_for(
        lock.native(), absl::ToChronoMilliseconds(options_.idle_stop),
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return stopping_ || (pauses_ == 0 && (next = NextJob(slot)) != queue_.end());
        });
    --idle_;
    if (stopping_) break;
    if (!woken) {
      lock.Unlock();
      EndWorker(slot);
      lock.Lock();
      continue;
    }
    const std::unique_ptr<Job> job = std::move(*next);
    queue_.erase(next);
    ++served_;
    for (const ShareKey& key : KeysOf(*job)) {
      Share& share = shares_[key];
      --share.queued;
      ++share.running;
      share.served = served_;
    }
    const int without_reserve = job->sharer.has_reserve ? 0 : 1;
    running_without_reserve_ += without_reserve;
    running_.push_back(job.get());
    lock.Unlock();
    {
      const ActingFor acting(job->sharer);
      absl::StatusOr<CompileResult> result = Contained([&] { return Perform(slot, *job); });
      if (!job->withdrawn) job->done(std::move(result));
    }
    lock.Lock();
    running_.remove(job.get());
    running_without_reserve_ -= without_reserve;
    for (const ShareKey& key : KeysOf(*job)) --shares_[key].running;
    Leave(*job);
    changed_.notify_all();
    if (slot.process == nullptr || slot.process->alive()) continue;
    // Killed for a job that was withdrawn, whose caller need not wait for the worker's end.
    lock.Unlock();
    slot.process.reset();
    lock.Lock();
  }
  lock.Unlock();
  EndWorker(slot);
}

absl::StatusOr<CompileResult> CompilePool::Perform(Slot& slot, Job& job) {
  const Cancelled cancelled = [&job] { return job.withdrawn.load(); };
  if (!job.plan || !KnowsCompilers()) RETURN_IF_ERROR(FindCompilers(slot, cancelled));
  if (!job.plan) return CompileResult();
  if (options_.cache != nullptr) {
    std::optional<Artifact> hit =
        options_.cache->Get(KeyOf(*job.plan, VersionOf(job.plan->language)));
    if (hit) return CompileResult{*std::move(hit), true};
  }
  return CompileInWorker(slot, job, cancelled);
}

absl::Status CompilePool::FindCompilers(Slot& slot, const Cancelled& cancelled) {
  RETURN_IF_ERROR(RememberedMissing());  // others may have asked at the same time
  const absl::Status started = EnsureWorker(slot, cancelled);
  if (!absl::IsUnavailable(started)) return started;
  MutexLock lock(mutex_);
  missing_ = started;
  missing_until_ = SteadyNow() + options_.missing_kept;
  return started;
}

WorkerRests CompilePool::RestsOf(Job& job) {
  if (!job.sharer.is_call) return {};
  return {.wanted =
              [this] {
                MutexLock lock(mutex_);
                return pauses_ > 0;
              },
          .notify =
              [this, &job](bool resting) {
                {
                  MutexLock lock(mutex_);
                  job.rests = resting;
                }
                changed_.notify_all();
              }};
}

// Headers that the operator offers are not in the plan, but in the digest of their folder.
std::string CompilePool::KeyOf(const CompilePlan& plan, const std::string& version) const {
  return CompileKey(
      plan, absl::StrCat(version, "\n", options_.include_roots.DigestOf(plan.include_roots)));
}

absl::StatusOr<CompileResult> CompilePool::CompileInWorker(Slot& slot, Job& job,
                                                           const Cancelled& cancelled) {
  const CompilePlan& plan = *job.plan;
  worker::v1::WorkerRequest request;
  *request.mutable_compile() = ToWire(plan);
  const absl::Time start = SteadyNow();
  // A reference is run, not compiled.
  const bool runs = TraitsOf(plan.language).runs_on_host;
  std::string failure;
  std::string short_of_disk;
  for (int attempt = 0; attempt < 2; ++attempt) {
    RETURN_IF_ERROR(EnsureWorkerFor(slot, plan.origin, cancelled));
    WorkerAnswer answer = slot.process->Call(request, options_.deadline, cancelled, RestsOf(job));
    ++slot.compiles;
    if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
    short_of_disk = WhyShortOfDisk(answer, *slot.process);
    if (answer.kind == WorkerAnswer::Kind::kReplied) {
      // The headers that it read may be newer than the digest in the key.
      RETURN_IF_ERROR(options_.include_roots.CheckUnchanged(plan.include_roots));
      std::optional<CompileResult> result = Answered(slot, plan, answer.reply);
      if (!result) short_of_disk = slot.process->WhyDiskFull();
      if (result && LackedDisk(*result)) short_of_disk = slot.process->WhyDiskShort();
      if (result && short_of_disk.empty()) {
        RetireIfWorn(slot);
        return *std::move(result);
      }
    }
    EndWorker(slot);
    ++worker_restarts_;
    if (answer.kind == WorkerAnswer::Kind::kDeadline) {
      return Blamed(Outcome::kCompileTimeout,
                    absl::StrCat(runs ? "not done within " : "not compiled within ",
                                 absl::FormatDuration(options_.deadline)),
                    SteadyNow() - start);
    }
    if (answer.kind == WorkerAnswer::Kind::kExceeded) {
      return Blamed(
          Outcome::kCompileFailed,
          absl::StrCat(runs ? "it was ended: " : "the compiler was ended: ", answer.message),
          SteadyNow() - start);
    }
    failure = answer.kind == WorkerAnswer::Kind::kReplied
                  ? absl::StrCat("its answer makes no sense ", answer.reply.status_message())
                  : answer.message;
  }
  if (!short_of_disk.empty()) return HostShortError(short_of_disk);
  return Blamed(Outcome::kCompileFailed,
                absl::StrCat("the compile worker failed twice on this variant: ", failure),
                SteadyNow() - start);
}

// Returns nullopt if the answer does not parse.
std::optional<CompileResult> CompilePool::Answered(Slot& slot, const CompilePlan& plan,
                                                   worker::v1::WorkerReply& reply) {
  if (reply.status_code() == static_cast<int>(absl::StatusCode::kResourceExhausted)) {
    // Not kept: a daemon with another bound may take it.
    return Blamed(Outcome::kCompileFailed, reply.status_message(), absl::ZeroDuration());
  }
  if (!reply.has_compiled() || !IsCompilersWord(reply.compiled())) return std::nullopt;
  if (static_cast<int64_t>(reply.compiled().binary().size()) > options_.binary_bytes_max) {
    return std::nullopt;
  }
  CompileResult result;
  result.may_pass = reply.compiled().outcome() == v1::OUTCOME_COMPILE_FAILED &&
                    LackedRoom(reply.compiled().log());
  // A cache that cannot be written to costs time later on, not this variant.
  if (options_.cache != nullptr && !result.may_pass) {
    options_.cache->Put(KeyOf(plan, VersionIn(slot.compilers, plan.language)), reply.compiled())
        .IgnoreError();
  }
  absl::StatusOr<Artifact> artifact = FromWire(std::move(*reply.mutable_compiled()));
  if (!artifact.ok()) return std::nullopt;
  result.artifact = *std::move(artifact);
  return result;
}

// A worker compiles for one origin only: text of one origin may have taken over the process, and
// must not read another's.
absl::Status CompilePool::EnsureWorkerFor(Slot& slot, const std::string& origin,
                                          const Cancelled& cancelled) {
  if (slot.compiles > 0 && slot.origin != origin) EndWorker(slot);
  RETURN_IF_ERROR(EnsureWorker(slot, cancelled));
  if (slot.compiles == 0) slot.origin_since = SteadyNow();
  slot.origin = origin;
  return absl::OkStatus();
}

absl::Status CompilePool::EnsureWorker(Slot& slot, const Cancelled& cancelled) {
  if (slot.process != nullptr && slot.process->alive()) return absl::OkStatus();
  RETURN_IF_ERROR(StartWorker(slot, cancelled));
  if (options_.walls == nullptr) return absl::OkStatus();
  const std::string& program = options_.command.program;
  if (!options_.walls->Knows(program)) {
    RETURN_IF_ERROR(options_.walls->Try(program, *slot.process, cancelled));
    // That worker is not used for anything else.
    RETURN_IF_ERROR(StartWorker(slot, cancelled));
  }
  absl::Status permitted = options_.walls->Permit(program, slot.walls_missing);
  if (!permitted.ok()) slot.process.reset();
  return permitted;
}

absl::Status CompilePool::StartWorker(Slot& slot, const Cancelled& cancelled) {
  EndWorker(slot);
  slot.compiles = 0;
  WorkerCommand command = options_.command;
  if (!options_.scratch_dir.empty()) {
    // Never one that was there before, since not all that others leave can be removed.
    slot.scratch = absl::StrCat(options_.scratch_dir, "/", slot.index, "-", ++slot.starts);
    const std::string& scratch = slot.scratch;
    std::error_code error;
    std::filesystem::create_directories(scratch, error);
    if (error.value() == ENOSPC || error.value() == EDQUOT) {
      return HostShortError(absl::StrCat("cannot make ", scratch, ": ", error.message()));
    }
    command.args.insert(command.args.end(), {"--scratch", scratch});
    command.limits.scratch_dir = scratch;
  }
  command.args.insert(command.args.end(),
                      {"--binary-bytes", absl::StrCat(options_.binary_bytes_max), "--log-bytes",
                       absl::StrCat(options_.log_bytes_max)});
  for (const IncludeRoot& root : options_.include_roots.all()) {
    command.args.insert(command.args.end(),
                        {"--include-root", absl::StrCat(root.name, "=", root.dir)});
  }
  ASSIGN_OR_RETURN(slot.process, WorkerProcess::Start(command));
  // Compilers keep every core busy: the daemon, and what measures, comes first.
  (void)setpriority(PRIO_PGRP, static_cast<id_t>(slot.process->pid()), kNiceness);
  absl::Status greeted = Greet(slot, cancelled);
  if (!greeted.ok()) slot.process.reset();
  return greeted;
}

// A worker that was killed leaves its temporary files behind.
void CompilePool::EndWorker(Slot& slot) {
  slot.process.reset();
  // A folder that cannot be removed does no harm: the next worker uses another one.
  if (!slot.scratch.empty()) RemoveFolder(slot.scratch);
  slot.scratch.clear();
}

absl::Status CompilePool::Greet(Slot& slot, const Cancelled& cancelled) {
  worker::v1::WorkerRequest request;
  request.mutable_hello();
  const WorkerAnswer answer = slot.process->Call(request, options_.start_deadline, cancelled);
  if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
  const std::string disk = WhyShortOfDisk(answer, *slot.process);
  if (!disk.empty()) return HostShortError(disk);
  if (answer.kind != WorkerAnswer::Kind::kReplied) {
    return absl::UnavailableError(absl::StrCat("the compile worker ", options_.command.program,
                                               " does not start: ", answer.message));
  }
  if (answer.reply.status_code() != 0) {
    return absl::UnavailableError(answer.reply.status_message());
  }
  const worker::v1::HelloReply& hello = answer.reply.hello();
  slot.walls_missing = hello.walls_missing();
  slot.compilers.clear();
  for (const worker::v1::Compiler& compiler : hello.compilers()) {
    CompilerInfo& info = slot.compilers.emplace_back();
    ASSIGN_OR_RETURN(info.language, ToLanguage(compiler.language()));
    info.version = compiler.version().empty() ? "unknown" : compiler.version();
    info.targets.assign(compiler.targets().begin(), compiler.targets().end());
  }
  if (slot.compilers.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the compile worker ", options_.command.program, " names no compiler"));
  }
  MutexLock lock(mutex_);
  compilers_ = slot.compilers;
  return absl::OkStatus();
}

void CompilePool::RetireIfWorn(Slot& slot) {
  if (slot.compiles >= options_.compiles_per_worker ||
      slot.process->ResidentBytesOfAll() > options_.resident_bytes_max) {
    slot.process.reset();
  }
}

}  // namespace tune::server
