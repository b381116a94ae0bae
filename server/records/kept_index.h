// SPDX-License-Identifier: Apache-2.0
// The note beside the index of records that a daemon keeps in its state folder
// (lookup/record_file.h), by which the next daemon knows whether the index is still true.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "lookup/place.h"
#include "lookup/record_file.h"

namespace tune::server {

struct IndexNote {
  std::string program;  // ProgramMark()
  std::string store;    // LargeStore::FingerprintOfRecords, of the index's newest
  int64_t settled_sweep = 0;
  lookup::SeenDevices devices;
  std::map<std::string, std::string> kernels;  // hashes by name, of those not in the catalogue
};

std::string ToText(const IndexNote& note);
// DATA_LOSS.
absl::StatusOr<IndexNote> ParseIndexNote(const std::string& text);

// A mark that differs for programs that would make different indexes of the same store. `shipped`
// is the digest of the records that ship.
std::string ProgramMark(const std::string& shipped);

// A record in its wire form.
lookup::RecordCodec WireCodec();

}  // namespace tune::server
