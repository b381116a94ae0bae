// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_service.h"

#include <memory>
#include <optional>

#include "server/records/record_convert.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/status_macros.h"

namespace tune::server {
namespace {

constexpr absl::Duration kLookupCap = absl::Minutes(2);

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
    for (const LookupIndex::Record& record : snapshot->Records()) {
      if (request->kernel_name().empty() || record->kernel_name == request->kernel_name()) {
        *response->add_records() = ToProto(*record);
      }
    }
    response->set_snapshot_id(snapshot->snapshot_id());
    return absl::OkStatus();
  });
}

}  // namespace tune::server
