// SPDX-License-Identifier: Apache-2.0
#include "client/cli/comparison_call.h"

#include "client/cli/call.h"
#include "tune/v1/comparison.grpc.pb.h"

namespace tune::client {

absl::StatusOr<v1::Comparison> GetComparison(Session& session, int64_t id, bool with_rounds) {
  v1::GetComparisonRequest request;
  request.set_comparison_id(id);
  request.set_with_rounds(with_rounds);
  return Call(session.Connect(Need::kRead), &v1::CompareService::Stub::GetComparison, request);
}

}  // namespace tune::client
