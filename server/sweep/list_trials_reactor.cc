// SPDX-License-Identifier: Apache-2.0
#include "server/sweep/list_trials_reactor.h"

#include <algorithm>
#include <utility>

#include "base/contained.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/rpc/grpc_status.h"
#include "server/sweep/sweeps.h"

namespace tune::server {
namespace {

constexpr uint32_t kIdsAtOnce = 4096;
constexpr size_t kPage = 8;  // of trials that have up to some MiB of samples
constexpr size_t kPageOfKnown = 32;

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
    place_ = Executor::ThisPlace();
    const absl::Status status = cancelled_ ? absl::CancelledError("the client went away")
                                           : Contained([this] { return Read(); });
    if (!status.ok() || page_.empty()) {
      Finish(ToGrpc(status));
    } else {
      WriteNext();
    }
  };
  place_ = nullptr;  // or the next page would wait for it
  const ActingFor acting(sharer_);
  const absl::Status queued = executor_.Run(read).status();
  if (!queued.ok()) Finish(ToGrpc(queued));
}

absl::Status ListTrialsReactor::Read() {
  next_ = 0;
  RETURN_IF_ERROR(CheckStanding());
  page_.clear();
  if (!sweep_) RETURN_IF_ERROR(ReadSweep());
  while (page_.empty()) {  // trials that cannot be read are left out
    if (next_id_ == ids_.size()) RETURN_IF_ERROR(ReadIds());
    const size_t page = lists_known_ ? kPageOfKnown : kPage;
    const size_t count = std::min(page, ids_.size() - next_id_);
    if (count == 0) break;
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(next_id_);
    const std::vector<int64_t> ids(first, first + static_cast<std::ptrdiff_t>(count));
    ASSIGN_OR_RETURN(page_, store_.TrialsWithIds(ids, !lists_known_));
    next_id_ += count;
  }
  if (samples_ == Samples::kInclude) return absl::OkStatus();
  for (Trial& trial : page_) trial.measurement.samples_ns = {};
  return absl::OkStatus();
}

absl::Status ListTrialsReactor::ReadSweep() {
  absl::StatusOr<db::SweepRow> sweep = store_.GetSweep(sweep_id_);
  if (absl::IsNotFound(sweep.status())) return NoSuchSweep(store_, sweep_id_);
  RETURN_IF_ERROR(sweep.status());
  sweep_ = *std::move(sweep);
  hides_words_ = !SeesWordsOf(sweep_->name_space);
  return absl::OkStatus();
}

absl::Status ListTrialsReactor::ReadIds() {
  next_id_ = 0;
  if (!ids_.empty()) last_id_ = ids_.back();
  if (lists_known_) {
    ASSIGN_OR_RETURN(ids_, store_.TrialIdsKnownTo(*sweep_, last_id_, kIdsAtOnce));
    if (!ids_.empty()) return absl::OkStatus();
    lists_known_ = false;
    last_id_ = 0;
  }
  ASSIGN_OR_RETURN(ids_, store_.TrialIdsOf(sweep_id_, last_id_, kIdsAtOnce));
  return absl::OkStatus();
}

void ListTrialsReactor::WriteNext() {
  while (next_ < page_.size()) {
    const Trial& trial = page_[next_++];
    const bool wanted = purpose_ == v1::TRIAL_PURPOSE_UNSPECIFIED ||
                        static_cast<int>(trial.purpose) == static_cast<int>(purpose_);
    if (!wanted) continue;
    message_ = ToProto(trial, samples_);
    if (hides_words_) HideWords(sweep_->name_space, message_);
    StartWrite(&message_);
    return;
  }
  ReadMore();
}

void ListTrialsReactor::OnWriteDone(bool ok) {
  const absl::Status standing = ok ? CheckStanding() : absl::CancelledError("");
  if (standing.ok()) {
    WriteNext();
  } else {
    Finish(ToGrpc(standing));
  }
}

}  // namespace tune::server
