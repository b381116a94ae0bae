// SPDX-License-Identifier: Apache-2.0
#include "server/records/record_service.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/records/explanation.h"
#include "server/records/record_convert.h"
#include "server/rpc/error_detail.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "server/wire/utf8.h"
#include "tuner/language.h"

namespace tune::server {
namespace {

constexpr absl::Duration kLookupCap = absl::Minutes(2);
constexpr uint32_t kComparedRecords = 5;
constexpr uint32_t kComparedRecordsMax = 1000;
constexpr size_t kPieceBytes = size_t{2} << 20;
constexpr int kQuestionsMax = 1000;
constexpr int kMissesMax = 100;
constexpr uint32_t kRecordsListed = 1000;

RecordQuery QueryOf(const v1::LookupRequest& request) {
  return {.kernel_name = request.kernel_name(),
          .dims = {request.dims().begin(), request.dims().end()},
          .dtype = request.dtype(),
          .device = request.device(),
          .kernel_hash = request.kernel_hash()};
}

absl::Status CheckCount(int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(count, " questions in one call; ask at most ", most));
}

// If the compiler decides the launch, it is not known before.
void AddLaunches(const RecordAnswer& answer, v1::LookupResponse& response) {
  if (TraitsOf(answer.kernel->language()).launched_as_compiled) return;
  const absl::StatusOr<std::vector<LaunchPlan>> launches =
      answer.kernel->PlanLaunches(answer.problem, answer.traits, answer.config);
  if (!launches.ok()) return;
  for (const LaunchPlan& step : *launches) {
    v1::LaunchStep& launch = *response.add_launches();
    launch.mutable_grid()->Add(step.grid.begin(), step.grid.end());
    launch.mutable_block()->Add(step.block.begin(), step.block.end());
    launch.mutable_cluster()->Add(step.cluster.begin(), step.cluster.end());
    launch.set_shared_bytes(step.shared_bytes);
  }
}

absl::string_view TextOf(const grpc::Slice& bytes) {
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

absl::Status ToBytes(const v1::LookupResponse& response, grpc::ByteBuffer& bytes) {
  bool owned = false;
  const grpc::Status status =
      grpc::SerializationTraits<v1::LookupResponse>::Serialize(response, &bytes, &owned);
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("an answer cannot be sent: ", status.error_message()));
}

absl::Status Fill(const absl::StatusOr<RecordAnswer>& answer, bool require_exact,
                  v1::LookupResponse& response) {
  RETURN_IF_ERROR(answer.status());
  if (require_exact && answer->match != lookup::Match::kExact) {
    return absl::FailedPreconditionError(absl::StrCat("no exact record: ", answer->reason));
  }
  Encode(answer->config, *response.mutable_config());
  response.set_match(answer->match == lookup::Match::kNone ? v1::MATCH_DEFAULT
                                                           : static_cast<v1::Match>(answer->match));
  response.set_reason(answer->reason);
  if (answer->record != nullptr) AddRecord(*answer->record, answer->record_on_wire, response);
  response.set_snapshot_id(answer->snapshot->snapshot_id());
  Encode(answer->expectation, *response.mutable_expectation());
  AddLaunches(*answer, response);
  return absl::OkStatus();
}

}  // namespace

// The question of a call, kept until it is answered.
struct RecordService::Question {
  Question(uint64_t of_version, grpc::Slice slice) : version(of_version), bytes(std::move(slice)) {}

  const uint64_t version;  // of what was known before
  const grpc::Slice bytes;
  char first_block[4096];  // enough for most questions with their answers
  google::protobuf::Arena arena{first_block, sizeof(first_block)};
  v1::LookupRequest& request = *google::protobuf::Arena::CreateMessage<v1::LookupRequest>(&arena);
};

absl::Status RecordService::AnswerTo(Question& question, const absl::StatusOr<RecordAnswer>& found,
                                     grpc::ByteBuffer& answer) {
  auto& response = *google::protobuf::Arena::CreateMessage<v1::LookupResponse>(&question.arena);
  RETURN_IF_ERROR(Fill(found, question.request.require_exact(), response));
  return ToBytes(response, answer);
}

grpc::ServerUnaryReactor* RecordService::Lookup(grpc::CallbackServerContext* context,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  const uint64_t version = records_.version();
  grpc::Slice slice;
  if (!request->DumpToSingleSlice(&slice).ok()) {
    return Answer(context, absl::InvalidArgumentError("the question did not arrive"));
  }
  if (std::optional<grpc::ByteBuffer> ready = ready_.Find(TextOf(slice), version)) {
    response->Swap(&*ready);
    return Answer(context, absl::OkStatus());
  }
  const auto question = std::make_shared<Question>(version, std::move(slice));
  const absl::string_view bytes = TextOf(question->bytes);
  if (!question->request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Answer(context, absl::InvalidArgumentError("the question is not a LookupRequest"));
  }
  const RecordQuery query = QueryOf(question->request);
  if (const auto known = records_.LookupAtOnce(query)) {
    const absl::Status status = AnswerTo(*question, *known, *response);
    const grpc::ByteBuffer answer = *response;  // the same bytes: when it is sent, ours is gone
    grpc::ServerUnaryReactor* const sent = Answer(context, status);
    if (status.ok()) ready_.Keep(bytes, version, answer);
    return sent;
  }
  return AnswerOn(executors_.waiting, context, kLookupCap, [=, this](const Cancelled& cancelled) {
    const absl::Status status = AnswerTo(*question, records_.Lookup(query, cancelled), *response);
    if (status.ok()) ready_.Keep(TextOf(question->bytes), version, *response);
    return status;
  });
}

grpc::ServerUnaryReactor* RecordService::LookupMany(grpc::CallbackServerContext* context,
                                                    const v1::LookupManyRequest* request,
                                                    v1::LookupManyResponse* response) {
  if (absl::Status status = CheckCount(request->questions_size(), kQuestionsMax); !status.ok()) {
    return Answer(context, status);
  }
  return AnswerOn(executors_.waiting, context, kLookupCap, [=, this](const Cancelled& cancelled) {
    std::vector<RecordQuery> queries;
    for (const v1::LookupRequest& question : request->questions()) {
      queries.push_back(QueryOf(question));
    }
    const std::vector<absl::StatusOr<RecordAnswer>> answers =
        records_.LookupMany(queries, cancelled);
    for (int i = 0; i < request->questions_size(); ++i) {
      v1::LookupOutcome& outcome = *response->add_outcomes();
      v1::LookupResponse filled;
      const absl::Status status = Fill(answers[i], request->questions(i).require_exact(), filled);
      if (status.ok()) {
        *outcome.mutable_answer() = std::move(filled);
      } else {
        outcome.set_error(Utf8(std::string(status.message())));
      }
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* RecordService::RecordMisses(grpc::CallbackServerContext* context,
                                                      const v1::RecordMissesRequest* request,
                                                      v1::RecordMissesResponse* response) {
  if (absl::Status status = CheckCount(request->questions_size(), kMissesMax); !status.ok()) {
    return Answer(context, status);
  }
  const absl::Time deadline = DeadlineOf(*context, kLookupCap);
  const std::string owner = principals_.Of(*context).name;
  return AnswerOn(executors_.waiting, context, kLookupCap, [=, this](const Cancelled& cancelled) {
    for (const v1::LookupRequest& question : request->questions()) {
      const RecordedMiss miss = record_miss_(QueryOf(question), owner, deadline, cancelled);
      Encode(miss, *response->add_misses());
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* RecordService::ListRecords(grpc::CallbackServerContext* context,
                                                     const v1::ListRecordsRequest* request,
                                                     v1::ListRecordsResponse* response) {
  const uint32_t limit = request->limit() == 0 ? kRecordsListed : request->limit();
  if (limit > kRecordsListed) {
    return Answer(context, absl::InvalidArgumentError(
                               absl::StrCat("limit ", limit, " is over ", kRecordsListed)));
  }
  return AnswerOn(executors_.reads, context, [=, this] {
    const std::shared_ptr<const lookup::Index> snapshot = records_.snapshot();
    const std::string& kernel = request->kernel_name();
    const std::vector<lookup::RecordPtr> all =
        kernel.empty() ? snapshot->Records() : snapshot->Records(kernel);
    const size_t first = std::min<size_t>(request->first(), all.size());
    const size_t end = std::min<size_t>(first + limit, all.size());
    for (size_t i = first; i < end; ++i) *response->add_records() = ToProto(*all[i]);
    response->set_left(static_cast<uint32_t>(all.size() - end));
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
    RETURN_IF_ERROR(Fill(answer, request->question().require_exact(), *response->mutable_answer()));
    *response->mutable_problem() = ToProto(answer->problem);
    response->set_device_name(answer->device_name);
    response->set_target(answer->traits.target);
    const uint32_t most = request->most() == 0 ? kComparedRecords : request->most();
    for (const Candidate& one : CompareWithRecords(*answer, std::min(most, kComparedRecordsMax))) {
      Encode(one, *response->add_candidates());
    }
    return absl::OkStatus();
  });
}

// An artifact without a record of this daemon came with a snapshot that an operator imported.
absl::Status RecordService::CheckMayRead(const std::string& artifact) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> name_spaces, name_spaces_of_(artifact));
  if (name_spaces.empty() || std::any_of(name_spaces.begin(), name_spaces.end(), SeesWordsOf)) {
    return absl::OkStatus();
  }
  return WithReason(absl::PermissionDeniedError(absl::StrCat(
                        "artifact ", artifact, " is of a record of ", name_spaces.front(),
                        "'s: it is read with a token or as a user of that name, or by an operator; "
                        "docs/access.md says why")),
                    v1::ERROR_REASON_NOT_ALLOWED);
}

grpc::ServerUnaryReactor* RecordService::ReadArtifact(grpc::CallbackServerContext* context,
                                                      const v1::ReadArtifactRequest* request,
                                                      v1::ReadArtifactResponse* response) {
  return AnswerOn(executors_.reads, context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(CheckMayRead(request->artifact()));
    ASSIGN_OR_RETURN(ArtifactFolder::Piece piece,
                     artifacts_.Read(request->artifact(), request->offset(), kPieceBytes));
    response->set_piece(std::move(piece.bytes));
    response->set_bytes(piece.whole_bytes);
    return absl::OkStatus();
  });
}

}  // namespace tune::server
