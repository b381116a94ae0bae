// SPDX-License-Identifier: Apache-2.0
#include "client/cli/comparison_call.h"

#include <chrono>

#include "client/connect/rpc.h"

namespace tune::client {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

}  // namespace

absl::StatusOr<v1::Comparison> GetComparison(Session& session, int64_t id, bool with_rounds) {
  auto connection = session.Connect(Need::kRead);
  if (!connection.ok()) return connection.status();
  grpc::ClientContext context;
  SetDeadline(context, kTimeout);
  v1::GetComparisonRequest request;
  request.set_comparison_id(id);
  request.set_with_rounds(with_rounds);
  v1::Comparison comparison;
  absl::Status status =
      FromGrpc((*connection)->comparisons().GetComparison(&context, request, &comparison));
  if (!status.ok()) return status;
  return comparison;
}

}  // namespace tune::client
