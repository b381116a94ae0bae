// SPDX-License-Identifier: Apache-2.0
#include "server/list_trials_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tune::server {

grpc::ServerWriteReactor<v1::Trial>* ListTrialsReactor::Start(const v1::ListTrialsRequest& request,
                                                              db::Store& store,
                                                              Executor& executor) {
  auto* reactor =
      new ListTrialsReactor(request.with_samples() ? Samples::kInclude : Samples::kOmit);
  const absl::Status queued =
      executor.Run([reactor, &store, id = request.sweep_id()] { reactor->Read(store, id); });
  if (!queued.ok()) reactor->Finish(ToGrpc(queued));
  return reactor;
}

void ListTrialsReactor::Read(db::Store& store, int64_t sweep_id) {
  absl::Status status = store.GetSweep(sweep_id).status();
  if (absl::IsNotFound(status)) {
    status = absl::NotFoundError(absl::StrCat("no sweep ", sweep_id, "; see `tunectl sweep list`"));
  }
  if (status.ok()) {
    absl::StatusOr<std::vector<Trial>> trials = store.TrialsOfSweep(sweep_id);
    if (trials.ok()) trials_ = *std::move(trials);
    status = trials.status();
  }
  if (!status.ok()) {
    Finish(ToGrpc(status));
  } else {
    WriteNext();
  }
}

void ListTrialsReactor::WriteNext() {
  if (next_ == trials_.size()) {
    Finish(grpc::Status::OK);
    return;
  }
  message_ = ToProto(trials_[next_], samples_);
  trials_[next_++] = Trial();
  StartWrite(&message_);
}

void ListTrialsReactor::OnWriteDone(bool ok) {
  if (ok) {
    WriteNext();
  } else {
    Finish(grpc::Status::CANCELLED);
  }
}

}  // namespace tune::server
