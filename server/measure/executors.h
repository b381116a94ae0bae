// SPDX-License-Identifier: Apache-2.0
// The executors of a sweep. VariantExecutor compiles and runs; the others wrap one and add to it. A
// sweep wraps them in this order, the first innermost:
//
//   VariantExecutor       compiles with Compilers, runs in a Session
//   AppraisingExecutor    judges a trial against the roof
//   BoundedExecutor       limits the bytes of the binaries that wait
//   RememberingExecutor   measures equal machine code once
//   AlternatingExecutor   compiles nothing while something is measured (the CPU device alone)
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/measure/session.h"
#include "server/measure/trial_executor.h"
#include "tuner/roofline/roofline.h"

namespace tune::server {

// At most kMaxTrialMessageBytes of a message; says so if it was cut.
std::string ShortenedMessage(std::string message);
// What a compile means for its attempt.
void TakeCompiled(CompileResult result, Attempt& attempt);
// Measures a program in a twin of the session, and sets what the trial says of it. A non-OK status
// means that the device is lost.
absl::Status MeasureTrial(Session& session, size_t twin, const RunRequest& request, Trial& trial);

class VariantExecutor : public TrialExecutor {
 public:
  // Measures in the session's first twin. All must outlive the executor.
  VariantExecutor(const Compilers& compilers, Session& session, const SamplePolicy& policy)
      : compilers_(compilers), session_(session), policy_(policy) {}
  ~VariantExecutor() override { Withdraw(); }

  void Compile(const AttemptPtr& attempt, Done done) override;
  absl::Status Measure(Attempt& attempt) override;
  // Ends the compiles under way. None of their callbacks runs afterwards.
  void Withdraw() const { compilers_.Withdraw(this); }
  // Trials much slower than this are cut short.
  void SetRival(double latency_ns) { rival_latency_ns_ = latency_ns; }
  uint64_t cache_hits() const { return cache_hits_; }

 private:
  const Compilers& compilers_;
  Session& session_;
  const SamplePolicy policy_;
  std::atomic<double> rival_latency_ns_{0};
  std::atomic<uint64_t> cache_hits_{0};
};

// Passes both steps on.
class ExecutorDecorator : public TrialExecutor {
 public:
  explicit ExecutorDecorator(TrialExecutor& inner) : inner_(inner) {}
  void Compile(const AttemptPtr& attempt, Done done) override {
    inner_.Compile(attempt, std::move(done));
  }
  absl::Status Measure(Attempt& attempt) override { return inner_.Measure(attempt); }

 protected:
  TrialExecutor& inner_;
};

class AppraisingExecutor : public ExecutorDecorator {
 public:
  // Measures the ceilings of the device again.
  using Raise = std::function<absl::StatusOr<std::vector<Ceiling>>()>;

  // `problem` must outlive the executor.
  AppraisingExecutor(TrialExecutor& inner, const ProblemPlan& problem, int64_t l2_bytes,
                     Raise raise)
      : ExecutorDecorator(inner),
        problem_(problem),
        l2_bytes_(l2_bytes),
        raise_(std::move(raise)) {}
  // A trial above the roof did less than its work, or the ceilings were measured on a busy host.
  // The first such trial has them measured again.
  absl::Status Measure(Attempt& attempt) override;
  // Sets the rates of a trial that was ok, and kAboveRoof if it is too fast. Thread-safe, as are
  // the next two.
  void Appraise(Trial& trial) const;
  void SetCeilings(const std::vector<Ceiling>& ceilings);
  Roof roof() const;

 private:
  bool RaiseRoof();

  const ProblemPlan& problem_;
  const int64_t l2_bytes_;
  const Raise raise_;
  bool has_raised_ = false;
  mutable Mutex mutex_;
  Roof roof_ ABSL_GUARDED_BY(mutex_);
};

class BoundedExecutor : public ExecutorDecorator {
 public:
  using Fetch = std::function<absl::StatusOr<CompileResult>(const ProgramPlan& program)>;

  // Binaries beyond `bytes_max` are dropped, and fetched again when their turn comes: as a rule
  // from the compile cache.
  BoundedExecutor(TrialExecutor& inner, int64_t bytes_max, Fetch fetch)
      : ExecutorDecorator(inner), bytes_max_(bytes_max), fetch_(std::move(fetch)) {}
  void Compile(const AttemptPtr& attempt, Done done) override;
  absl::Status Measure(Attempt& attempt) override;

 private:
  void Hold(Attempt& attempt);

  const int64_t bytes_max_;
  const Fetch fetch_;
  const std::shared_ptr<std::atomic<int64_t>> bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

class RememberingExecutor : public ExecutorDecorator {
 public:
  // Beyond `count_max` the oldest results are dropped, and measured again if they come again.
  RememberingExecutor(TrialExecutor& inner, size_t count_max)
      : ExecutorDecorator(inner), count_max_(count_max) {}
  absl::Status Measure(Attempt& attempt) override;

 private:
  void Remember(const std::string& work, Trial trial);

  const size_t count_max_;
  // Without samples, by the SHA-256 of the work: machine code, launch and arguments.
  std::unordered_map<std::string, Trial> known_;
  std::deque<std::string> oldest_first_;
};

// Compiles on the processors that the device measures with would distort the times. So the attempts
// wait until Release, then compile as one batch, and only then are measured, in their order.
class AlternatingExecutor : public ExecutorDecorator {
 public:
  using Quiet = std::function<absl::StatusOr<CompilePause>()>;

  AlternatingExecutor(TrialExecutor& inner, Quiet quiet)
      : ExecutorDecorator(inner), quiet_(std::move(quiet)) {}
  void Compile(const AttemptPtr& attempt, Done done) override;
  absl::Status Measure(Attempt& attempt) override;
  // Starts a batch of what waits, unless one is under way.
  void Release();
  // Forgets all attempts. REQUIRES: none of them compiles or is measured.
  void Clear();

 private:
  struct Waiting {
    AttemptPtr attempt;
    Done done;
  };
  void OnCompiled(size_t place, const Waiting& one, const absl::Status& status);

  const Quiet quiet_;
  Mutex mutex_;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  // The batch's, by place, until all of it is compiled.
  std::vector<Done> compiled_ ABSL_GUARDED_BY(mutex_);
  size_t compiling_ ABSL_GUARDED_BY(mutex_) = 0;  // of the batch
  size_t unfinished_ ABSL_GUARDED_BY(mutex_) =
      0;                               // of the batch: that compile, or are to be measured
  std::optional<CompilePause> pause_;  // while the batch is measured; of the thread that measures
};

}  // namespace tune::server
