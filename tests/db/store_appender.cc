// SPDX-License-Identifier: Apache-2.0
// Appends trials to a store and prints the id of each once it is acknowledged, until it is killed.
// The durability test kills it.
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "tests/db/rows_to_store.h"

namespace {

int Append(const std::string& path) {
  using namespace tune::db;  // NOLINT
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(path);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  if (!(*store)->PutKernel(MakeKernelRow("k1")).ok()) return 1;
  const int64_t sweep_id = (*store)->AddSweep(MakeSweepRow("k1")).value().id;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (true) {
        absl::StatusOr<int64_t> id = (*store)->AppendTrial(MakeTrial(sweep_id), MakeTrialKey("k1"));
        if (!id.ok()) _exit(1);
        // A single write call, so that a kill never leaves half a line.
        std::string line = absl::StrCat(*id, "\n");
        if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace

int main(int count, char** arguments) { return count == 2 ? Append(arguments[1]) : 2; }
