// SPDX-License-Identifier: Apache-2.0
// Records that come with the program: what was measured on devices that its makers had, a layer
// under the store's own. kernels/records/ has the files, tools/renew_records writes them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "lookup/record.h"

namespace tune::server {

// Records of a store are numbered from 1.
inline bool IsShipped(const lookup::Record& record) { return record.id == 0; }

// Of a file's text, a ListRecordsResponse as JSON. Their ids, and those of their sweeps and trials,
// are 0: they are in no store here. INVALID_ARGUMENT: it is none, or a record lacks its key.
absl::StatusOr<std::vector<lookup::Record>> ParseShippedRecords(const std::string& text);

// All that were compiled in. INTERNAL: a file that cannot be read, which the tests refuse.
absl::StatusOr<std::vector<lookup::Record>> LoadShippedRecords();

// Those of `shipped` whose workload none of `own` is of, then `own`.
std::vector<lookup::Record> WithShipped(std::vector<lookup::Record> shipped,
                                        std::vector<lookup::Record> own);

}  // namespace tune::server
