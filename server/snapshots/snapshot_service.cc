// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_service.h"

#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_text.h"
#include "server/rpc/call_standing.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/state/whole_file.h"
#include "server/wire/nouns.h"

namespace tune::server {
namespace {

constexpr size_t kPieceBytes = size_t{2} << 20;
constexpr absl::Duration kCap = absl::Seconds(30);
constexpr std::chrono::seconds kImportTimeMax(121);

v1::Snapshot SnapshotProto(const StoredSnapshot& snapshot) {
  v1::Snapshot proto;
  proto.set_digest(snapshot.digest);
  proto.set_number(snapshot.header.number);
  proto.set_published_unix_ms(snapshot.header.published_unix_ms);
  proto.set_record_count(snapshot.header.record_count);
  proto.set_bytes(snapshot.bytes);
  proto.set_newest(snapshot.newest);
  proto.set_pinned(snapshot.note.has_value());
  proto.set_note(Utf8(snapshot.note.value_or("")));
  return proto;
}

absl::Status Fill(const absl::StatusOr<StoredSnapshot>& snapshot, v1::Snapshot& response) {
  RETURN_IF_ERROR(snapshot.status());
  response = SnapshotProto(*snapshot);
  return absl::OkStatus();
}

// Collects the pieces of a file, then has it stored: `store(first request, whole file)`. Owns
// itself until gRPC is done with it.
template <typename Request>
class ImportReactor : public grpc::ServerReadReactor<Request> {
 public:
  using Store = std::function<absl::Status(const Request&, const std::string&)>;

  ImportReactor(const grpc::CallbackServerContext& context, Executor& executor, size_t bytes_max,
                Store store)
      : executor_(executor), bytes_max_(bytes_max), store_(std::move(store)) {
    // gRPC ends the call then, however slowly the pieces come.
    if (context.deadline() > std::chrono::system_clock::now() + kImportTimeMax) {
      this->Finish(
          ToGrpc(absl::InvalidArgumentError("give the call a deadline of at most 2 minutes")));
    } else {
      this->StartRead(&piece_);
    }
  }

  void OnReadDone(bool ok) override {
    if (const absl::Status standing = standing_ ? standing_() : absl::OkStatus(); !standing.ok()) {
      return this->Finish(ToGrpc(standing));
    }
    if (!ok) {
      const absl::Status queued =
          executor_
              .Run([this] {
                this->Finish(ToGrpc(Contained([this] { return store_(first_, text_); })));
              })
              .status();
      if (!queued.ok()) this->Finish(ToGrpc(queued));
      return;
    }
    text_ += piece_.piece();
    if (text_.size() > bytes_max_) {
      this->Finish(ToGrpc(absl::ResourceExhaustedError(
          absl::StrCat("a file of at most ", bytes_max_ >> 20, " MiB can be imported"))));
      return;
    }
    if (text_.size() == piece_.piece().size()) first_ = std::move(piece_);
    this->StartRead(&piece_);
  }
  void OnDone() override { delete this; }

 private:
  Executor& executor_;
  const size_t bytes_max_;
  const Store store_;
  Request first_;
  Request piece_;
  std::string text_;
  const Standing standing_ = CallStanding::Current();
};

}  // namespace

absl::StatusOr<StoredSnapshot> SnapshotService::Find(const std::string& snapshot,
                                                     const Cancelled& cancelled) {
  if (snapshot.empty()) RETURN_IF_ERROR(writer_.Flush(cancelled));
  return folder_.Find(snapshot);
}

grpc::ServerUnaryReactor* SnapshotService::ListSnapshots(grpc::CallbackServerContext* context,
                                                         const v1::ListSnapshotsRequest*,
                                                         v1::ListSnapshotsResponse* response) {
  return AnswerOn(executors_.waiting, context, kCap, [=, this](const Cancelled& cancelled) {
    const absl::Status flushed = writer_.Flush(cancelled);
    if (!flushed.ok()) response->set_problem(Utf8(std::string(flushed.message())));
    for (const StoredSnapshot& snapshot : folder_.List()) {
      *response->add_snapshots() = SnapshotProto(snapshot);
    }
    response->set_folder(Utf8(folder_.path()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SnapshotService::ReadSnapshot(grpc::CallbackServerContext* context,
                                                        const v1::ReadSnapshotRequest* request,
                                                        v1::ReadSnapshotResponse* response) {
  const auto read = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const StoredSnapshot snapshot, Find(request->snapshot(), cancelled));
    *response->mutable_snapshot() = SnapshotProto(snapshot);
    ASSIGN_OR_RETURN(std::string piece,
                     folder_.Read(snapshot.digest, request->offset(), kPieceBytes));
    response->set_piece(std::move(piece));
    return absl::OkStatus();
  };
  return AnswerOn(executors_.waiting, context, kCap, read);
}

grpc::ServerUnaryReactor* SnapshotService::PinSnapshot(grpc::CallbackServerContext* context,
                                                       const v1::PinSnapshotRequest* request,
                                                       v1::Snapshot* response) {
  const auto pin = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(const StoredSnapshot snapshot, Find(request->snapshot(), cancelled));
    return Fill(folder_.Pin(snapshot.digest, request->note()), *response);
  };
  return AnswerOn(executors_.waiting, context, kCap, pin);
}

grpc::ServerUnaryReactor* SnapshotService::UnpinSnapshot(grpc::CallbackServerContext* context,
                                                         const v1::UnpinSnapshotRequest* request,
                                                         v1::Snapshot* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    if (request->snapshot().empty()) {
      return absl::InvalidArgumentError("name the snapshot; see `tunectl snapshot list`");
    }
    ASSIGN_OR_RETURN(const StoredSnapshot snapshot, folder_.Find(request->snapshot()));
    return Fill(folder_.Unpin(snapshot.digest), *response);
  });
}

grpc::ServerReadReactor<v1::ImportSnapshotRequest>* SnapshotService::ImportSnapshot(
    grpc::CallbackServerContext* context, v1::Snapshot* response) {
  const auto store = [=, this](const v1::ImportSnapshotRequest& first, const std::string& text) {
    RETURN_IF_ERROR(CheckSnapshotText(text));
    const std::string digest = DigestOf(text);
    if (!first.digest().empty() && digest != first.digest()) {
      return absl::InvalidArgumentError(absl::StrCat("its bytes are ", digest, ", not ",
                                                     first.digest(),
                                                     ": it was altered, or is another snapshot"));
    }
    return Fill(folder_.PutPinned(text, first.note()), *response);
  };
  return new ImportReactor<v1::ImportSnapshotRequest>(*context, executors_.reads, kImportBytesMax,
                                                      store);
}

grpc::ServerReadReactor<v1::ImportArtifactRequest>* SnapshotService::ImportArtifact(
    grpc::CallbackServerContext* context, v1::ImportArtifactResponse* response) {
  const auto store = [=, this](const v1::ImportArtifactRequest& first, const std::string& text) {
    RETURN_IF_ERROR(CheckArtifactText(text, first.artifact()));
    response->set_bytes(text.size());
    return artifacts_.Put(text).status();
  };
  return new ImportReactor<v1::ImportArtifactRequest>(*context, executors_.reads, kArtifactBytesMax,
                                                      store);
}

grpc::ServerUnaryReactor* SnapshotService::PruneSnapshots(grpc::CallbackServerContext* context,
                                                          const v1::PruneSnapshotsRequest* request,
                                                          v1::PruneSnapshotsResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    const uint32_t keep = request->keep() == 0 ? folder_.kept() : request->keep();
    ASSIGN_OR_RETURN(const std::vector<StoredSnapshot> removed, folder_.Prune(keep));
    response->set_removed(static_cast<uint32_t>(removed.size()));
    for (const StoredSnapshot& snapshot : removed) {
      response->set_removed_bytes(response->removed_bytes() + snapshot.bytes);
    }
    return absl::OkStatus();
  });
}

}  // namespace tune::server
