// SPDX-License-Identifier: Apache-2.0
#include "server/comparison/comparison_service.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/access/discretion.h"
#include "server/comparison/comparison_convert.h"
#include "server/comparison/comparison_evidence.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/page.h"
#include "server/rpc/unary.h"

namespace tune::server {
namespace {

constexpr absl::Duration kReadCap = absl::Minutes(10);

}  // namespace

void ComparisonService::Hide(const std::string& owner, v1::Comparison& comparison) const {
  if (owner.empty() || IsCaller(owner) || jobs_.principals.IsOperator(owner)) return;
  HideWords(owner, comparison);
}

// Never waits: answered on gRPC's thread.
grpc::ServerUnaryReactor* ComparisonService::AnswerPeer(grpc::CallbackServerContext* context,
                                                        const v1::AnswerPeerRequest* request,
                                                        v1::AnswerPeerResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(leases_.Hear(*request)));
  return reactor;
}

grpc::ServerUnaryReactor* ComparisonService::ListComparisons(
    grpc::CallbackServerContext* context, const v1::ListComparisonsRequest* request,
    v1::ListComparisonsResponse* response) {
  return AnswerOn(jobs_.executors.reads, context, [=, this]() -> absl::Status {
    ASSIGN_OR_RETURN(const Page page, PageOf(*request));
    ASSIGN_OR_RETURN(const std::vector<db::ComparisonRow> rows,
                     jobs_.store.ListComparisons(page.limit, page.before_id));
    if (!rows.empty()) response->set_next_page_token(absl::StrCat(rows.back().id));
    for (const db::ComparisonRow& row : rows) {
      v1::Comparison& comparison = *response->add_comparisons();
      comparison = ToProto(row);
      Hide(row.job.owner, comparison);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ComparisonService::GetComparison(grpc::CallbackServerContext* context,
                                                           const v1::GetComparisonRequest* request,
                                                           v1::Comparison* response) {
  const auto get = [=, this](const Cancelled& cancelled) -> absl::Status {
    const bool with_rounds = request->with_rounds();
    ASSIGN_OR_RETURN(const ComparisonEvidence evidence,
                     LoadComparison(jobs_.store, request->comparison_id(),
                                    with_rounds ? Samples::kInclude : Samples::kOmit, cancelled));
    *response = ToProto(evidence, with_rounds ? Turns::kInclude : Turns::kOmit);
    Hide(evidence.run.job.owner, *response);
    return absl::OkStatus();
  };
  return AnswerOn(jobs_.executors.reads, context, kReadCap, get);
}

}  // namespace tune::server
