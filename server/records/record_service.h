// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/principals.h"
#include "server/artifacts/artifact_folder.h"
#include "server/records/ready_answers.h"
#include "server/records/record_book.h"
#include "server/records/recorded_miss.h"
#include "server/rpc/executor.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune::server {

// Answers look-ups on gRPC's own threads, since all that they need is in memory, unless a safe
// config is to be searched for. A repeated question is answered without parsing it while nothing
// has changed. Thread-safe.
class RecordService
    : public v1::RecordService::WithRawCallbackMethod_Lookup<v1::RecordService::CallbackService> {
 public:
  // The name spaces of the records that have an artifact.
  using NameSpacesOf =
      std::function<absl::StatusOr<std::vector<std::string>>(const std::string& artifact)>;

  // All must outlive the service.
  RecordService(const Principals& principals, const RecordBook& records,
                const ArtifactFolder& artifacts, NameSpacesOf name_spaces_of,
                RecordMiss record_miss, Executors& executors)
      : principals_(principals),
        records_(records),
        artifacts_(artifacts),
        name_spaces_of_(std::move(name_spaces_of)),
        record_miss_(std::move(record_miss)),
        executors_(executors) {}

  // A LookupRequest and a LookupResponse, as they are on the wire.
  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LookupMany(grpc::CallbackServerContext* context,
                                       const v1::LookupManyRequest* request,
                                       v1::LookupManyResponse* response) override;
  grpc::ServerUnaryReactor* RecordMisses(grpc::CallbackServerContext* context,
                                         const v1::RecordMissesRequest* request,
                                         v1::RecordMissesResponse* response) override;
  grpc::ServerUnaryReactor* ListRecords(grpc::CallbackServerContext* context,
                                        const v1::ListRecordsRequest* request,
                                        v1::ListRecordsResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override;
  grpc::ServerUnaryReactor* ReadArtifact(grpc::CallbackServerContext* context,
                                         const v1::ReadArtifactRequest* request,
                                         v1::ReadArtifactResponse* response) override;

 private:
  struct Question;
  // PERMISSION_DENIED: all records of the artifact are in name spaces of others.
  absl::Status CheckMayRead(const std::string& artifact) const;
  absl::Status AnswerTo(Question& question, const absl::StatusOr<RecordAnswer>& found,
                        grpc::ByteBuffer& answer);

  const Principals& principals_;
  const RecordBook& records_;
  const ArtifactFolder& artifacts_;
  const NameSpacesOf name_spaces_of_;
  const RecordMiss record_miss_;
  Executors& executors_;
  ReadyAnswers ready_;
};

}  // namespace tune::server
