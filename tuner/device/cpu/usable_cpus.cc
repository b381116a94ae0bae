// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/usable_cpus.h"

#include <errno.h>
#include <sched.h>

#include <cstddef>

namespace tune::cpu {
namespace {

constexpr int kCpusMax = 8192;

}  // namespace

std::vector<int> UsableCpus() {
  std::vector<int> cpus;
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  const size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(bytes, set);
  if (sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kCpusMax; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  return cpus;
}

}  // namespace tune::cpu
