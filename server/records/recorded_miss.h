// SPDX-License-Identifier: Apache-2.0
// What became of a problem that no record answers exactly. Who queues it is given to the service:
// sweeps stand above records.
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
