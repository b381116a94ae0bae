// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/list_trials_reactor.h"

#include "server/rpc/grpc_status.h"
#include "server/sweep/sweeps.h"
#include "tuner/contained.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr uint32_t kTrialsRead = 64;

}  // namespace

grpc::ServerWriteReactor<v1::Trial>* ListTrialsReactor::Start(const v1::ListTrialsRequest& request,
                                                              db::Store& store,
                                                              Executor& executor) {
  auto* reactor = new ListTrialsReactor(request, store, executor);
  reactor->ReadMore();
  return reactor;
}

void ListTrialsReactor::ReadMore() {
  const auto read = [this] {
    const absl::Status status = cancelled_ ? absl::CancelledError("the client went away")
                                           : Contained([this] { return Read(); });
    if (!status.ok() || trials_.empty()) {
      Finish(ToGrpc(status));
    } else {
      WriteNext();
    }
  };
  const absl::Status queued = executor_.Run(read).status();
  if (!queued.ok()) Finish(ToGrpc(queued));
}

absl::Status ListTrialsReactor::Read() {
  next_ = 0;
  if (!started_) {
    started_ = true;
    const absl::StatusOr<db::SweepRow> sweep = store_.GetSweep(sweep_id_);
    if (absl::IsNotFound(sweep.status())) {
      return NoSuchSweep(store_, sweep_id_);
    }
    RETURN_IF_ERROR(sweep.status());
    if (with_reused_) {
      ASSIGN_OR_RETURN(trials_, store_.TrialsKnownTo(*sweep));
      if (!trials_.empty()) return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(trials_, store_.TrialsAfter(sweep_id_, last_id_, kTrialsRead));
  return absl::OkStatus();
}

void ListTrialsReactor::WriteNext() {
  while (next_ < trials_.size()) {
    const Trial& trial = trials_[next_++];
    if (trial.sweep_id == sweep_id_) last_id_ = trial.id;
    const bool wanted = purpose_ == v1::TRIAL_PURPOSE_UNSPECIFIED ||
                        static_cast<int>(trial.purpose) == static_cast<int>(purpose_);
    if (!wanted) continue;
    message_ = ToProto(trial, samples_);
    StartWrite(&message_);
    return;
  }
  ReadMore();
}

void ListTrialsReactor::OnWriteDone(bool ok) {
  if (ok) {
    WriteNext();
  } else {
    Finish(grpc::Status::CANCELLED);
  }
}

}  // namespace tune::server
