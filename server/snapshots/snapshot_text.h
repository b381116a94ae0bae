// SPDX-License-Identifier: Apache-2.0
// A snapshot as a file, from which look-ups are answered without a daemon. Equal records and
// kernels give equal bytes. docs/snapshots.md describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/records/record_book.h"
#include "server/snapshots/vault.h"

namespace tune::server {

// The first line of a snapshot.
struct SnapshotHeader {
  int64_t number = 0;  // of the newest record
  int64_t published_unix_ms = 0;
  uint64_t record_count = 0;
};

// The records, and the entries of the vault. RESOURCE_EXHAUSTED: it would have more than
// `bytes_max` bytes.
absl::StatusOr<std::string> SnapshotText(const Knowledge& knowledge, size_t bytes_max,
                                         const std::vector<VaultEntry>& vault = {});

// INVALID_ARGUMENT: not the first line of a snapshot of this version.
absl::StatusOr<SnapshotHeader> ParseSnapshotHeader(absl::string_view first_line);

// INVALID_ARGUMENT: not a snapshot.
absl::Status CheckSnapshotText(absl::string_view text);

}  // namespace tune::server
