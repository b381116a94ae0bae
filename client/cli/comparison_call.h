// SPDX-License-Identifier: Apache-2.0
// A stored comparison as a call: what compare show and report compare share.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tune/v1/comparison.pb.h"

namespace tune::client {

// NOT_FOUND: there is none of this id.
absl::StatusOr<v1::Comparison> GetComparison(Session& session, int64_t id, bool with_rounds);

}  // namespace tune::client
