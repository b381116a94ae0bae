// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/artifacts/artifact_folder.h"
#include "server/rpc/executor.h"
#include "server/snapshots/snapshot_folder.h"
#include "server/snapshots/snapshot_writer.h"
#include "tune/v1/snapshot.grpc.pb.h"

namespace tune::server {

// Thread-safe.
class SnapshotService : public v1::SnapshotService::CallbackService {
 public:
  // All must outlive the service.
  SnapshotService(SnapshotFolder& folder, SnapshotWriter& writer, ArtifactFolder& artifacts,
                  Executors& executors)
      : folder_(folder), writer_(writer), artifacts_(artifacts), executors_(executors) {}

  grpc::ServerUnaryReactor* ListSnapshots(grpc::CallbackServerContext* context,
                                          const v1::ListSnapshotsRequest* request,
                                          v1::ListSnapshotsResponse* response) override;
  grpc::ServerUnaryReactor* ReadSnapshot(grpc::CallbackServerContext* context,
                                         const v1::ReadSnapshotRequest* request,
                                         v1::ReadSnapshotResponse* response) override;
  grpc::ServerUnaryReactor* PinSnapshot(grpc::CallbackServerContext* context,
                                        const v1::PinSnapshotRequest* request,
                                        v1::Snapshot* response) override;
  grpc::ServerUnaryReactor* UnpinSnapshot(grpc::CallbackServerContext* context,
                                          const v1::UnpinSnapshotRequest* request,
                                          v1::Snapshot* response) override;
  grpc::ServerReadReactor<v1::ImportSnapshotRequest>* ImportSnapshot(
      grpc::CallbackServerContext* context, v1::Snapshot* response) override;
  grpc::ServerReadReactor<v1::ImportArtifactRequest>* ImportArtifact(
      grpc::CallbackServerContext* context, v1::ImportArtifactResponse* response) override;
  grpc::ServerUnaryReactor* PruneSnapshots(grpc::CallbackServerContext* context,
                                           const v1::PruneSnapshotsRequest* request,
                                           v1::PruneSnapshotsResponse* response) override;

 private:
  // Finds a snapshot. The newest has all that was published until now.
  absl::StatusOr<StoredSnapshot> Find(const std::string& snapshot, const Cancelled& cancelled);

  SnapshotFolder& folder_;
  SnapshotWriter& writer_;
  ArtifactFolder& artifacts_;
  Executors& executors_;
};

}  // namespace tune::server
