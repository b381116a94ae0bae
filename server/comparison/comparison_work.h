// SPDX-License-Identifier: Apache-2.0
// A comparison as a job: problem after problem is compiled, checked and measured in rounds, and
// everything is stored on the way.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "db/store.h"
#include "server/access/principals.h"
#include "server/comparison/comparison_plan.h"
#include "server/comparison/comparison_rounds.h"
#include "server/comparison/peer_lease.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kinds.h"
#include "server/measure/message_budget.h"
#include "server/supervision/workers.h"

namespace tune::server {

// Its steps are v1::PeerOrder; its result is a v1::Comparison without problems. Not thread-safe:
// one run.
class ComparisonWork : public JobWork {
 public:
  // All must outlive the work.
  ComparisonWork(db::Store& store, Workers& workers, PeerLeases& leases, ComparisonPlan plan)
      : store_(store), workers_(workers), leases_(leases), plan_(std::move(plan)) {}

  End Run(JobContext& context) override;
  std::string Name() const override { return "a comparison"; }
  absl::Duration time_max() const override { return plan_.TimeMax(); }
  size_t source_bytes() const override { return plan_.SourceBytes(); }
  bool runs_again() const override { return false; }

 private:
  // One kernel on the problem that is being measured.
  struct Candidate {
    db::ComparedRow row;
    Variant variant;  // of a peer only the problem
    const ComparedWorkload* item = nullptr;
    bool runs = true;

    bool is_peer() const { return item->peer.has_value(); }
  };
  using Candidates = std::vector<Candidate>;

  absl::Status OpenDevice(JobContext& context);
  absl::Status Compare(size_t place, JobContext& context);
  absl::Status Plan(size_t place, Candidates& candidates) const;
  // What it runs, on the first kernel's inputs; `first` is null of the first itself. A non-OK
  // status says why it cannot take part.
  absl::Status PlanRun(const ProblemPlan* first, Candidate& candidate) const;
  absl::Status Compile(Candidates& candidates) const;
  // Its checker, and what its reference computes on the host.
  absl::Status CompleteProblem(Candidate& candidate) const;
  absl::Status CheckResults(Candidates& candidates);
  // Has every peer run once, and judges what it computed. `first`: whose reference says what is
  // right; null: no kernel runs.
  absl::Status CheckPeers(Candidates& candidates, const Candidate* first);
  absl::Status CheckPeer(const Candidate& first, Candidate& peer);
  // Gives a peer its turn. Its own failures are in the report, whatever their kind; a non-OK
  // status ends the run.
  struct PeerTurn {
    RunReport report;
    std::map<std::string, std::string> outputs;
  };
  enum class Purpose { kCheck, kTime };
  absl::StatusOr<PeerTurn> AskPeer(const Candidate& first, const Candidate& peer, Purpose purpose);
  absl::Status StoreCandidates(size_t place, Candidates& candidates);
  absl::Status MeasureRound(uint32_t round, Candidates& candidates);
  // Which problem, for people: "seq=1024 (2 of 6): ".
  std::string Which(size_t place) const;

  db::Store& store_;
  Workers& workers_;
  PeerLeases& leases_;
  const std::shared_ptr<PeerLease> lease_ = std::make_shared<PeerLease>();
  ComparisonPlan plan_;
  Feed* feed_ = nullptr;  // of its job, once it runs
  DeviceInfo info_;
  TargetTraits traits_;
  std::vector<Ceiling> ceilings_;
  std::optional<DeviceSession> session_;
  std::optional<ComparisonRounds> rounds_;
  std::mt19937_64 random_;
  MessageBudget messages_;
  Cancelled cancelled_;
};

// All must outlive the kind.
JobKind ComparisonKind(const ComparisonTools& tools, db::Store& store, Workers& workers,
                       PeerLeases& leases, const Principals& principals);

}  // namespace tune::server
