// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_service.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "server/records/explanation.h"
#include "server/records/record_convert.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kLookupCap = absl::Minutes(2);
constexpr uint32_t kComparedRecords = 5;
constexpr uint32_t kComparedRecordsMax = 1000;
constexpr size_t kPieceBytes = size_t{2} << 20;

RecordQuery QueryOf(const v1::LookupRequest& request) {
  return {.kernel_name = request.kernel_name(),
          .dims = {request.dims().begin(), request.dims().end()},
          .dtype = request.dtype(),
          .device = request.device(),
          .kernel_hash = request.kernel_hash()};
}

absl::Status Fill(const absl::StatusOr<RecordAnswer>& answer, v1::LookupResponse& response) {
  RETURN_IF_ERROR(answer.status());
  *response.mutable_config() = ToProto(answer->config);
  response.set_match(answer->match == Match::kNone ? v1::MATCH_DEFAULT
                                                   : static_cast<v1::Match>(answer->match));
  response.set_reason(answer->reason);
  if (answer->record != nullptr) *response.mutable_record() = ToProto(*answer->record);
  response.set_snapshot_id(answer->snapshot->snapshot_id());
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* RecordService::Lookup(grpc::CallbackServerContext* context,
                                                const v1::LookupRequest* request,
                                                v1::LookupResponse* response) {
  const std::optional<absl::StatusOr<RecordAnswer>> known =
      records_.LookupAtOnce(QueryOf(*request));
  if (known) return Answer(context, Fill(*known, *response));
  return AnswerOn(executors_.waiting, context, kLookupCap, [=, this](const Cancelled& cancelled) {
    return Fill(records_.Lookup(QueryOf(*request), cancelled), *response);
  });
}

grpc::ServerUnaryReactor* RecordService::ListRecords(grpc::CallbackServerContext* context,
                                                     const v1::ListRecordsRequest* request,
                                                     v1::ListRecordsResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this] {
    const std::shared_ptr<const LookupIndex> snapshot = records_.snapshot();
    const std::string& kernel = request->kernel_name();
    for (const LookupIndex::Record& record :
         kernel.empty() ? snapshot->Records() : snapshot->Records(kernel)) {
      *response->add_records() = ToProto(*record);
    }
    response->set_snapshot_id(snapshot->snapshot_id());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* RecordService::Explain(grpc::CallbackServerContext* context,
                                                 const v1::ExplainRequest* request,
                                                 v1::ExplainResponse* response) {
  return AnswerOn(executors_.waiting, context, kLookupCap, [=, this](const Cancelled& cancelled) {
    const absl::StatusOr<RecordAnswer> answer =
        records_.Lookup(QueryOf(request->question()), cancelled);
    RETURN_IF_ERROR(Fill(answer, *response->mutable_answer()));
    *response->mutable_problem() = ToProto(answer->problem);
    response->set_device_name(answer->device_name);
    response->set_target(answer->traits.target);
    const uint32_t most = request->most() == 0 ? kComparedRecords : request->most();
    for (const Candidate& one :
         CompareWithRecords(*answer, std::min(most, kComparedRecordsMax))) {
      Encode(one, *response->add_candidates());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* RecordService::ReadArtifact(grpc::CallbackServerContext* context,
                                                      const v1::ReadArtifactRequest* request,
                                                      v1::ReadArtifactResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(ArtifactFolder::Piece piece,
                     artifacts_.Read(request->artifact(), request->offset(), kPieceBytes));
    response->set_piece(std::move(piece.bytes));
    response->set_bytes(piece.whole_bytes);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
