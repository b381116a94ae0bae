// SPDX-License-Identifier: Apache-2.0
// How much memory this process may use, and how many compile workers fit into it.
#pragma once

#include <cstdint>
#include <string>

namespace tune::server {

// The host's memory, or the limit of this process's cgroup, whichever is less; 0 if the kernel does
// not report it. `root` is put before each path that is read.
int64_t UsableMemoryBytes(const std::string& root = "");
// Like UsableMemoryBytes, but falls back to the host's pages if the kernel does not report it.
int64_t MemoryBytes();

// The number of `threads`, but no more workers than three quarters of the memory hold; at least
// one.
int CompileWorkersThatFit(int threads, int64_t memory_bytes, int64_t worker_bytes);

}  // namespace tune::server
