// SPDX-License-Identifier: Apache-2.0
#include "tuner/transfer/waves.h"

#include <algorithm>
#include <limits>

namespace tune {
namespace {

// Limits of a multiprocessor: CUDA C++ Programming Guide, compute capabilities.
constexpr int64_t kRegisters = 65536;
constexpr int64_t kReservedSharedBytes = 1024;  // of each block, by the system
constexpr int64_t kThreadsPerWarp = 32;
constexpr int64_t kRegisterUnit = 8;  // what a thread's registers are rounded up to
// Beside the time of its blocks, a wave takes half a block's time to fill and to drain.
constexpr double kBlocksOfAWave = 0.5;

struct Places {
  int64_t threads = 2048;
  int64_t blocks = 32;
};

Places PlacesOf(int sm) {
  if (sm == 75) return {1024, 16};
  if (sm == 86 || sm == 87) return {1536, 16};
  if (sm == 89 || sm >= 110) return {1536, 24};
  return {};
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

int64_t ResidentBlocks(int sm, int64_t max_shared_bytes, const BlockNeeds& needs) {
  const Places places = PlacesOf(sm);
  int64_t blocks = places.blocks;
  if (needs.threads > 0) {
    blocks = std::min(blocks, places.threads / needs.threads);
    const int64_t registers = CeilDiv(needs.registers, kRegisterUnit) * kRegisterUnit;
    const int64_t threads = CeilDiv(needs.threads, kThreadsPerWarp) * kThreadsPerWarp;
    if (registers > 0) blocks = std::min(blocks, kRegisters / (registers * threads));
  }
  const int64_t shared = max_shared_bytes + kReservedSharedBytes;
  blocks = std::min(blocks, shared / (needs.shared_bytes + kReservedSharedBytes));
  return std::max<int64_t>(1, blocks);
}

double Stretch(int64_t blocks, int64_t residents, int64_t multiprocessors) {
  if (blocks <= 0 || residents <= 0 || multiprocessors <= 0) return 1;
  const int64_t most = CeilDiv(blocks, multiprocessors);  // of the busiest multiprocessor
  const int64_t waves = CeilDiv(most, residents);
  const double time = static_cast<double>(most) + kBlocksOfAWave * static_cast<double>(waves);
  return time * static_cast<double>(multiprocessors) / static_cast<double>(blocks);
}

}  // namespace tune
