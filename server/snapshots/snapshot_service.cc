// SPDX-License-Identifier: Apache-2.0
#include "server/snapshots/snapshot_service.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr size_t kPieceBytes = size_t{2} << 20;
constexpr absl::Duration kCap = absl::Seconds(30);
constexpr std::chrono::seconds kImportTimeMax(121);

v1::Snapshot ToProto(const StoredSnapshot& snapshot) {
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
  response = ToProto(*snapshot);
  return absl::OkStatus();
}

// Collects the pieces of a file, then stores it. Owns itself until gRPC is done with it.
class ImportReactor : public grpc::ServerReadReactor<v1::ImportSnapshotRequest> {
 public:
  ImportReactor(const grpc::CallbackServerContext& context, SnapshotFolder& folder,
                Executor& executor, v1::Snapshot& response)
      : folder_(folder), executor_(executor), response_(response) {
    // gRPC ends the call then, however slowly the pieces come.
    if (context.deadline() > std::chrono::system_clock::now() + kImportTimeMax) {
      Finish(ToGrpc(absl::InvalidArgumentError("give the call a deadline of at most 2 minutes")));
    } else {
      StartRead(&piece_);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const absl::Status queued = executor_.Run([this] { Finish(ToGrpc(Store())); }).status();
      if (!queued.ok()) Finish(ToGrpc(queued));
      return;
    }
    if (text_.empty()) note_ = piece_.note();
    text_ += piece_.piece();
    if (text_.size() > kImportBytesMax) {
      Finish(ToGrpc(absl::ResourceExhaustedError(
          absl::StrCat("a snapshot of at most ", kImportBytesMax >> 20, " MiB can be imported"))));
      return;
    }
    StartRead(&piece_);
  }
  void OnDone() override { delete this; }

 private:
  absl::Status Store() {
    RETURN_IF_ERROR(CheckSnapshotText(text_));
    return Fill(folder_.PutPinned(text_, note_.empty() ? "imported" : note_), response_);
  }

  SnapshotFolder& folder_;
  Executor& executor_;
  v1::Snapshot& response_;
  v1::ImportSnapshotRequest piece_;
  std::string text_;
  std::string note_;
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
      *response->add_snapshots() = ToProto(snapshot);
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
    *response->mutable_snapshot() = ToProto(snapshot);
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
  return new ImportReactor(*context, folder_, executors_.reads, *response);
}

grpc::ServerUnaryReactor* SnapshotService::PruneSnapshots(
    grpc::CallbackServerContext* context, const v1::PruneSnapshotsRequest* request,
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
