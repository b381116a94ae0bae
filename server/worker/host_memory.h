// SPDX-License-Identifier: Apache-2.0
// How much memory this process may use, and how many compile workers fit into it.
#pragma once

#include <cstdint>
#include <string>

namespace tune::server {

// The host's memory, or the limit of a cgroup that this process is in, whichever is less; 0 if the
// kernel does not say. `root` goes before each path that is read.
int64_t UsableMemoryBytes(const std::string& root = "");
// The same; the host's pages where the kernel does not say.
int64_t MemoryBytes();

// As many as there are threads, but no more than three quarters of the memory hold; at least one.
int CompileWorkersThatFit(int threads, int64_t memory_bytes, int64_t worker_bytes);

}  // namespace tune::server
