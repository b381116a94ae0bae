// SPDX-License-Identifier: Apache-2.0
// How fast a kernel was, revision by revision, from what gate runs have measured.
#pragma once

#include "absl/status/statusor.h"
#include "base/cancelled.h"
#include "db/store.h"
#include "tune/v1/gate.pb.h"

namespace tune::server {

// A base is a point, since bases are the main branch; so is a head that was timed for the
// history; other heads only if asked for. CANCELLED: `cancelled` said so; it is asked between runs.
absl::StatusOr<v1::GetHistoryResponse> History(const v1::GetHistoryRequest& request,
                                               db::Store& store, const Cancelled& cancelled);

}  // namespace tune::server
