// SPDX-License-Identifier: Apache-2.0
// Which rows attention's blocks take on the wgmma path, for grids that the CPU device has not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/catalogue.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

int block_m = 192;
int section = 1;
int spread = 0;
bool packed = false;
struct {
  int x;
} gridDim, blockIdx;

#define __device__
#define __forceinline__ inline
#define DTYPE int
#define BLOCK_M block_m
#define BLOCK_N 128
#define SECTION section
#define SPREAD spread
#define CAUSAL 1
#define SHIFTED 0
#define WINDOWED 0
#define SOFTCAP 0
#define SINKS 0
#define PACKED packed
namespace device {
#include "kernels/attention/rounds.h"
}  // namespace device
using device::Rounds;
using device::Span;

int Tiles(const device::Problem& problem) {
  return device::TilesOfHead(problem) * problem.batch * problem.heads;
}

device::Problem ProblemOf(int heads, int seq) {
  device::Problem problem = {};
  problem.batch = 1;
  problem.heads = problem.kv_heads = heads;
  problem.seq = problem.keys = seq;
  return problem;
}

// The grid of a persistent launch on a device with room for so many blocks, as the spec has it.
int GridOf(const device::Problem& problem, int slots) {
  const bool has_many_tiles = device::TilesOfHead(problem) >= 2 * slots;
  const int tiles = Tiles(problem);
  return SECTION == 1 && has_many_tiles ? tiles : std::min(tiles, slots);
}

void CheckRows(const device::Problem& problem, int slots) {
  SCOPED_TRACE(testing::Message() << problem.heads << " heads of " << problem.seq << ", " << block_m
                                  << " rows a tile, " << slots << " slots, section " << section
                                  << ", spread " << spread);
  gridDim.x = GridOf(problem, slots);
  std::vector<int> taken(static_cast<size_t>(problem.heads) * problem.seq);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    for (Rounds rounds(problem); rounds.Tile() < Tiles(problem); rounds.Next()) {
      ASSERT_GE(rounds.Tile(), 0);
      const Span span = device::SpanAt(problem, rounds.Tile());
      if (span.IsEmpty()) continue;
      ASSERT_TRUE(0 <= span.row && span.row < span.end && span.end <= span.seq)
          << span.row << " to " << span.end;
      ASSERT_TRUE(0 <= span.start && span.start + span.end <= problem.seq) << span.start;
      ASSERT_LE(span.end - span.row, block_m);
      ASSERT_EQ(span.row % 64, 0);
      for (int row = span.row; row < span.end; ++row) {
        ++taken[static_cast<size_t>(span.head) * problem.seq + span.start + row];
      }
    }
  }
  EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), static_cast<ptrdiff_t>(taken.size()));
}

TEST(AttentionRounds, EveryRowIsTakenOnce) {
  for (block_m = 64; block_m <= 192; block_m += 64) {
    for (section = 1; section <= 64; section *= 8) {
      for (spread = 0; spread <= 1; ++spread) {
        for (const int heads : {1, 5, 33}) {
          for (const int seq : {1, 64, 65, 320, 577, 1024, 4096}) {
            for (const int slots : {1, 2, 7, 132}) CheckRows(ProblemOf(heads, seq), slots);
          }
        }
      }
    }
  }
}

// Else a block would go on by more tiles than the grid has blocks.
TEST(AttentionRounds, AHeadMayHaveManyTimesAsManyTilesAsThereAreBlocks) {
  section = 1;
  for (block_m = 64; block_m <= 192; block_m += 64) {
    for (spread = 0; spread <= 1; ++spread) {
      for (const int heads : {1, 3}) CheckRows(ProblemOf(heads, 65536), 132);
      for (const int slots : {1, 16, 78}) CheckRows(ProblemOf(2, 16384), slots);
    }
  }
}

TEST(AttentionRounds, EveryRowOfPackedSequencesIsTakenOnce) {
  packed = true;
  spread = 0;
  const std::vector<int> kStarts = {0, 1, 1, 64, 64, 200, 392, 1000, 1000};
  for (block_m = 64; block_m <= 192; block_m += 64) {
    for (section = 1; section <= 64; section *= 8) {
      for (const int sequences : {1, 2, 6, 8}) {
        device::Problem problem = ProblemOf(3, kStarts[static_cast<size_t>(sequences)]);
        problem.sequences = sequences;
        problem.starts = kStarts.data();
        for (const int slots : {1, 7, 132}) CheckRows(problem, slots);
      }
    }
  }
  packed = false;
}

int IntegerOf(const Config& config, const std::string& param) {
  for (const auto& [name, value] : config.entries) {
    if (name == param) return static_cast<int>(std::get<int64_t>(value));
  }
  return -1;
}

// What the tests above take for granted.
TEST(AttentionRounds, TheSpecLaunchesSuchGrids) {
  std::shared_ptr<const Kernel> kernel;
  const std::vector<CatalogueEntry> entries = LoadCatalogue().value();
  for (const CatalogueEntry& entry : entries) {
    if (entry.name != "attention") continue;
    kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files).value();
  }
  ASSERT_NE(kernel, nullptr);
  TargetTraits traits = TargetTraitsFor("sm_90a").value();
  section = 1;
  for (const int seq : {1024, 4096, 50304, 65536}) {
    for (const int slots : {1, 16, 132}) {
      traits.sm_count = slots;
      const Problem problem =
          kernel
              ->MakeProblem({{"batch", 1}, {"heads", 2}, {"kv_heads", 2}, {"seq", seq}}, "bf16",
                            traits.target)
              .value();
      const Config config = kernel->DefaultConfig(problem, traits).value();
      block_m = IntegerOf(config, "BLOCK_M");
      ASSERT_EQ(IntegerOf(config, "PERSISTENT"), 1);
      ASSERT_EQ(IntegerOf(config, "CTAS"), 1);
      const ProgramPlan plan = kernel->PlanProgram(problem, traits, config).value();
      EXPECT_EQ(plan.steps[0].launch.grid[0], GridOf(ProblemOf(2, seq), slots))
          << seq << ", " << slots;
    }
  }
}

}  // namespace
}  // namespace tune
