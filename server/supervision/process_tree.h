// SPDX-License-Identifier: Apache-2.0
// Measures the memory, processes and threads of a process and its descendants, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tune::server {

struct TreeUse {
  int64_t resident_bytes = 0;
  int processes = 0;
  int threads = 0;
};

// Counts at most `processes_max` processes, so that it takes bounded time.
TreeUse UseOfTree(pid_t root, int processes_max);

// Memory of a process alone that others cannot have: its resident set, huge pages, page tables and
// what was swapped out. 0 if unknown.
int64_t ResidentBytesOf(pid_t pid);

// Bytes on disk of a folder's content. INT64_MAX if it has more than `entries_max` entries.
int64_t BytesUnder(const std::string& folder, int entries_max);

}  // namespace tune::server
