// SPDX-License-Identifier: Apache-2.0
// Sweeps as messages and as the summaries that the store keeps of them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "db/sweep_store.h"
#include "server/sweep/sweep_view.h"
#include "tune/v1/sweep.pb.h"

namespace tune::server {

v1::Sweep ToProto(const SweepView& view);

// The parts of a finished sweep besides its row and its trials, as JSON for SweepRow::summary.
std::string SummaryText(const SweepView& view);
// Restores progress and the roof of the result from a row's summary; the result's trials are for
// the caller to fill in. DATA_LOSS if the text is not a summary.
absl::StatusOr<SweepView> FromSummaryText(const db::SweepRow& row);

}  // namespace tune::server
