// SPDX-License-Identifier: Apache-2.0
// A sweep on one device: from its row to what it found. `Go` opens the device, searches and
// confirms; `Record` is what a confirmed winner is published as; `Ended` says how the job ends. A
// sweep that is interrupted, by a stop of the daemon or an interactive job, is another SweepRun
// later, which goes on from the stored trials.
//
//   SweepRun run(store, workers, records, solver, work, context);
//   absl::Status status = run.Go();
//   if (std::optional<lookup::Record> record = run.Record()) { ...publish... }
//   JobWork::End end = run.Ended(status);
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/steady_time.h"
#include "db/store.h"
#include "lookup/record.h"
#include "server/kernels/space_solver.h"
#include "server/measure/message_budget.h"
#include "server/measure/sweep_evaluator.h"
#include "server/records/record_book.h"
#include "server/supervision/workers.h"
#include "server/sweep/progress_meter.h"
#include "server/sweep/sweeps.h"
#include "tuner/strategies/strategy.h"
#include "tuner/sweep/sweep.h"
#include "tuner/trial_key.h"

namespace tune::server {

// A sweep while it runs. Not thread-safe: lives on the thread of its device.
class SweepRun {
 public:
  SweepRun(db::Store& store, Workers& workers, const RecordBook& records, SpaceSolver& solver,
           SweepWork& work, JobContext& context)
      : store_(store),
        workers_(workers),
        records_(records),
        solver_(solver),
        work_(work),
        context_(context),
        stop_(context.stop()),
        view_(work.view()),
        meter_(SteadyNow()),
        spent_before_(view_.row.spent_seconds),
        noted_spent_(spent_before_) {}
  // Releases the device for other jobs: no worker stays on it between sweeps.
  ~SweepRun();

  absl::Status Go();
  // Calls `write`, and retries for a moment if the disk is full or fails. If that does not pass,
  // the sweep pauses: Ended says so.
  absl::Status Persist(absl::FunctionRef<absl::Status()> write);
  // The end of the job, given what Go returned. Passes the result to the sweep's work.
  JobWork::End Ended(const absl::Status& status);
  // The record to publish; nullopt unless a winner was confirmed.
  std::optional<lookup::Record> Record() const;
  // The sweep's row, stored together with its record. REQUIRES: there is a record.
  db::SweepRow DoneRow() const;
  // Removes the winner, whose record could not be published. Returns the status to end with.
  absl::Status NotPublished(const absl::Status& why);
  // The artifact of the record's config, as the text of its file.
  absl::StatusOr<std::string> Artifact(const lookup::Record& record) const;

 private:
  absl::Status LoadKernel();
  absl::Status OpenDevice();
  // FAILED_PRECONDITION: the device is not the one that the sweep was submitted for.
  absl::Status CheckDevice(const DeviceInfo& info) const;
  absl::Status PlanSpace();
  // The number of trials at once: fewer than the evaluator takes if a strategy that learns has few
  // to try. A strategy that learns from a prior also learns from results.
  size_t InFlight() const;
  absl::StatusOr<std::vector<PriorObservation>> LoadPrior();
  // Configs that won at other problems, in the order in which they are tried.
  std::vector<uint64_t> LoadStarts();
  lookup::Query QueryOfKey() const;
  absl::StatusOr<std::vector<Trial>> LoadKnown();
  void Keep(Trial trial);
  absl::Status Search(const std::vector<Trial>& known);
  // RunSweep, with the help of the sweep's further devices if it has any.
  absl::StatusOr<SweepSummary> SearchWithHelp(const SweepBudget& budget,
                                              const std::vector<Trial>& known,
                                              const SweepHooks& hooks);
  void NoteDevice(Trial& trial);
  absl::Status Confirm();
  void AddIncumbent();
  absl::Status StoreConfirmed(Trial& trial);
  absl::Status Append(Trial& trial);
  absl::Status NameBestSoFar();
  void Report(const SweepSummary& summary, const Trial* trial);
  void NoteSpent();
  std::string Unconfirmed() const;

  db::Store& store_;
  Workers& workers_;
  const RecordBook& records_;
  SpaceSolver& solver_;
  SweepWork& work_;
  JobContext& context_;
  const std::atomic<bool>& stop_;
  SweepView view_;
  ProgressMeter meter_;

  std::shared_ptr<const Kernel> kernel_;
  DeviceSupervisor* device_ = nullptr;
  SweepEvaluatorOptions like_;  // of evaluators that help
  std::unique_ptr<SweepEvaluator> evaluator_;
  std::map<std::string, uint64_t> trials_on_;  // by device id; empty unless it is spread
  std::optional<Space> space_;
  std::optional<Config> default_config_;  // not every problem allows the spec's default
  std::unique_ptr<Strategy> strategy_;
  TrialKey key_;
  std::vector<Trial> finalists_;        // the fastest that were ok, without samples
  std::optional<Trial> default_trial_;  // of the search, if it was ok
  SweepSummary summary_;
  uint64_t known_own_ = 0;      // of the known trials, those of its own earlier turns
  double search_seconds_ = 0;   // that the search may take; 0: no limit
  double prepare_seconds_ = 0;  // of the budget that went before it
  double spent_before_ = 0;     // of the budget, by earlier turns of the sweep
  double noted_spent_ = 0;      // as the store has it
  bool confirmed_ = false;
  std::string paused_;  // why it waits for the disk; empty: it does not
  MessageBudget messages_;
};

}  // namespace tune::server
