// SPDX-License-Identifier: Apache-2.0
// Why a record answered and others did not: each field of the key, for each record that came near.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "lookup/key_fields.h"
#include "server/records/record_book.h"

namespace tune::server {

struct Candidate {
  int64_t record_id = 0;
  std::vector<lookup::KeyField> fields;
  bool config_is_valid = false;  // for the problem that was asked for
  bool answers = false;          // this is the record that answered
};
TUNE_FIELDS(Candidate, record_id, fields, config_is_valid, answers);

// The `most` records of the kernel that are most like the question, the most alike first.
std::vector<Candidate> CompareWithRecords(const RecordAnswer& answer, size_t most);

}  // namespace tune::server
