// SPDX-License-Identifier: Apache-2.0
// What a process and all it has started use, as /proc tells.
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

// Counts no more than `processes_max` processes: it takes a bounded time, whatever they do.
TreeUse UseOfTree(pid_t root, int processes_max);

// Memory of a process alone that others cannot have: its resident set, huge pages, page tables and
// what was swapped out. 0 if unknown.
int64_t ResidentBytesOf(pid_t pid);

// Bytes on disk of what is under a folder, and no more than `entries_max` entries of it: a folder
// with more is told as INT64_MAX.
int64_t BytesUnder(const std::string& folder, int entries_max);

}  // namespace tune::server
