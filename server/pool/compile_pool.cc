// SPDX-License-Identifier: Apache-2.0
#include "server/pool/compile_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/worker/convert.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr std::chrono::milliseconds kPatience(20);
constexpr int kNiceness = 5;

// May a compiler say this of a variant?
bool IsCompilersWord(const CompiledVariant& variant) {
  if (variant.outcome == Outcome::kOk) return !variant.binary.empty();
  return variant.outcome == Outcome::kCompileFailed || variant.outcome == Outcome::kInvalidConfig;
}

CompiledVariant Blamed(Outcome outcome, std::string log, absl::Duration spent) {
  CompiledVariant variant;
  variant.outcome = outcome;
  variant.log = std::move(log);
  variant.seconds = absl::ToDoubleSeconds(spent);
  return variant;
}

}  // namespace

CompilePool::CompilePool(CompilePoolOptions options)
    : options_(std::move(options)),
      workers_(options_.workers > 0
                   ? options_.workers
                   : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

CompilePool::~CompilePool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
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
  job->plan = std::move(plan);
  job->done = std::move(done);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(job));
    if (queue_.size() > idle_ && static_cast<int>(slots_.size()) < workers_) {
      Slot& slot = slots_.emplace_back();
      slot.index = static_cast<int>(slots_.size()) - 1;
      slot.thread = std::thread([this, &slot] { Loop(slot); });
    }
  }
  changed_.notify_all();
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
  while (future.wait_for(kPatience) != std::future_status::ready) {
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

absl::StatusOr<CompilerInfo> CompilePool::Info(const Cancelled& cancelled) {
  if (KnownVersion().empty()) {
    absl::StatusOr<CompileResult> greeted = Await(std::nullopt, cancelled);
    if (!greeted.ok()) return greeted.status();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return info_;
}

std::string CompilePool::KnownVersion() {
  std::lock_guard<std::mutex> lock(mutex_);
  return info_.version;
}

void CompilePool::Withdraw(const void* owner) {
  std::unique_lock<std::mutex> lock(mutex_);
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(),
                              [&](const auto& job) { return job->owner == owner; }),
               queue_.end());
  for (Job* job : running_) {
    if (job->owner == owner) job->withdrawn = true;
  }
  changed_.wait(lock, [&] {
    return std::none_of(running_.begin(), running_.end(),
                        [&](const Job* job) { return job->owner == owner; });
  });
}

absl::Status CompilePool::Pause(const Cancelled& cancelled) {
  std::unique_lock<std::mutex> lock(mutex_);
  ++pauses_;
  while (!changed_.wait_for(lock, kPatience, [&] { return running_.empty(); })) {
    if (!cancelled || !cancelled()) continue;
    --pauses_;
    changed_.notify_all();
    return absl::CancelledError("cancelled while waiting for compiles to end");
  }
  return absl::OkStatus();
}

void CompilePool::Resume() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    --pauses_;
  }
  changed_.notify_all();
}

absl::StatusOr<CompilePause> CompilePause::Take(CompilePool& pool, const Cancelled& cancelled) {
  RETURN_IF_ERROR(pool.Pause(cancelled));
  return CompilePause(&pool);
}

void CompilePool::Loop(Slot& slot) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    ++idle_;
    const bool woken = changed_.wait_for(lock, absl::ToChronoMilliseconds(options_.idle_stop), [&] {
      return stopping_ || (pauses_ == 0 && !queue_.empty());
    });
    --idle_;
    if (stopping_) break;
    if (!woken) {
      lock.unlock();
      slot.process.reset();
      lock.lock();
      continue;
    }
    const std::unique_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    running_.push_back(job.get());
    lock.unlock();
    absl::StatusOr<CompileResult> result = Perform(slot, *job);
    if (!job->withdrawn) job->done(std::move(result));
    lock.lock();
    running_.remove(job.get());
    changed_.notify_all();
    if (slot.process == nullptr || slot.process->alive()) continue;
    // Killed for a job that was withdrawn: whoever withdrew it need not wait for its end.
    lock.unlock();
    slot.process.reset();
    lock.lock();
  }
  lock.unlock();
  slot.process.reset();
}

absl::StatusOr<CompileResult> CompilePool::Perform(Slot& slot, const Job& job) {
  const Cancelled cancelled = [&job] { return job.withdrawn.load(); };
  if (!job.plan || KnownVersion().empty()) RETURN_IF_ERROR(EnsureWorker(slot, cancelled));
  CompileResult result;
  if (!job.plan) return result;
  if (options_.cache != nullptr) {
    std::optional<CompiledVariant> hit = options_.cache->Get(CompileKey(*job.plan, KnownVersion()));
    if (hit) return CompileResult{*std::move(hit), true};
  }
  ASSIGN_OR_RETURN(result.variant, CompileInWorker(slot, *job.plan, cancelled));
  return result;
}

absl::StatusOr<CompiledVariant> CompilePool::CompileInWorker(Slot& slot, const CompilePlan& plan,
                                                             const Cancelled& cancelled) {
  worker::v1::WorkerRequest request;
  *request.mutable_compile() = ToWire(plan);
  const absl::Time start = absl::Now();
  std::string failure;
  for (int attempt = 0; attempt < 2; ++attempt) {
    RETURN_IF_ERROR(EnsureWorker(slot, cancelled));
    const WorkerAnswer answer = slot.process->Call(request, options_.deadline, cancelled);
    ++slot.compiles;
    if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
    if (answer.kind == WorkerAnswer::Kind::kReplied && answer.reply.has_compiled()) {
      absl::StatusOr<CompiledVariant> variant = FromWire(answer.reply.compiled());
      if (variant.ok() && IsCompilersWord(*variant)) {
        RetireIfWorn(slot);
        // A cache that cannot be written to costs time later on, not this variant.
        if (options_.cache)
          options_.cache->Put(CompileKey(plan, slot.version), *variant).IgnoreError();
        return *std::move(variant);
      }
    }
    slot.process.reset();
    ++worker_restarts_;
    if (answer.kind == WorkerAnswer::Kind::kDeadline) {
      return Blamed(Outcome::kCompileTimeout,
                    absl::StrCat("not compiled within ", absl::FormatDuration(options_.deadline)),
                    absl::Now() - start);
    }
    if (answer.kind == WorkerAnswer::Kind::kExceeded) {
      return Blamed(Outcome::kCompileFailed,
                    absl::StrCat("the compiler was ended: ", answer.message), absl::Now() - start);
    }
    failure = answer.kind == WorkerAnswer::Kind::kReplied
                  ? absl::StrCat("its answer makes no sense ", answer.reply.status_message())
                  : answer.message;
  }
  return Blamed(Outcome::kCompileFailed,
                absl::StrCat("the compile worker failed twice on this variant: ", failure),
                absl::Now() - start);
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
  slot.process.reset();
  slot.compiles = 0;
  WorkerCommand command = options_.command;
  if (!options_.scratch_dir.empty()) {
    // A worker that was killed leaves its temporary files behind.
    const std::string scratch = absl::StrCat(options_.scratch_dir, "/", slot.index);
    std::error_code ignored;
    std::filesystem::remove_all(scratch, ignored);
    std::filesystem::create_directories(scratch, ignored);
    command.args.insert(command.args.end(), {"--scratch", scratch});
    command.limits.scratch_dir = scratch;
  }
  ASSIGN_OR_RETURN(slot.process, WorkerProcess::Start(command));
  // Compilers keep every core busy: the daemon, and what measures, comes first.
  (void)setpriority(PRIO_PGRP, static_cast<id_t>(slot.process->pid()), kNiceness);
  absl::Status greeted = Greet(slot, cancelled);
  if (!greeted.ok()) slot.process.reset();
  return greeted;
}

absl::Status CompilePool::Greet(Slot& slot, const Cancelled& cancelled) {
  worker::v1::WorkerRequest request;
  request.mutable_hello();
  const WorkerAnswer answer = slot.process->Call(request, options_.start_deadline, cancelled);
  if (answer.kind == WorkerAnswer::Kind::kCancelled) return absl::CancelledError("cancelled");
  if (answer.kind != WorkerAnswer::Kind::kReplied) {
    return absl::UnavailableError(absl::StrCat("the compile worker ", options_.command.program,
                                               " does not start: ", answer.message));
  }
  if (answer.reply.status_code() != 0) {
    return absl::UnavailableError(answer.reply.status_message());
  }
  const worker::v1::HelloReply& hello = answer.reply.hello();
  slot.version = hello.compiler_version();
  slot.walls_missing = hello.walls_missing();
  std::lock_guard<std::mutex> lock(mutex_);
  info_ = {hello.compiler_version(), {hello.targets().begin(), hello.targets().end()}};
  if (info_.version.empty()) info_.version = "unknown";
  return absl::OkStatus();
}

void CompilePool::RetireIfWorn(Slot& slot) {
  if (slot.compiles >= options_.compiles_per_worker ||
      slot.process->ResidentBytes() > options_.resident_bytes_max) {
    slot.process.reset();
  }
}

}  // namespace tune::server
