// SPDX-License-Identifier: Apache-2.0
// The answer to a recorded miss, which is a problem that no record answers exactly. The service is
// given a function that queues it, since sweeps stand above records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "base/cancelled.h"
#include "base/fields.h"
#include "server/records/record_book.h"

namespace tune::server {

struct RecordedMiss {
  int64_t sweep_id = 0;  // 0: nothing tunes it
  std::string note;
};
TUNE_FIELDS(RecordedMiss, sweep_id, note);

using RecordMiss = std::function<RecordedMiss(const RecordQuery& query, const std::string& owner,
                                              absl::Time deadline, const Cancelled& cancelled)>;

}  // namespace tune::server
