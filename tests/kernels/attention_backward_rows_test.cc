// SPDX-License-Identifier: Apache-2.0
// Which rows the blocks of attention's gradient hold and stream, and where facts of rows lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tune {
namespace {

int section = 1;
bool packed = false;

#define __device__
#define __forceinline__ inline
#define DTYPE int
#define HEAD_DIM 64
#define BLOCK_M 128
#define BLOCK_N 192
#define SECTION section
#define PARTS 2
#define COLUMN_PARTS 2
#define STAGGER 0
#define CAUSAL 1
#define OTHER_KEYS 1
#define WINDOWED 1
#define SOFTCAP 0
#define PACKED packed
namespace device {
#include "kernels/attention_backward/backward_problem.h"
}  // namespace device

device::Problem ProblemOf(int seq, int keys, int window) {
  device::Problem problem = {};
  problem.batch = 1;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.seq = problem.rows = seq;
  problem.keys = keys;
  problem.window = window;
  return problem;
}

const std::vector<int>& Starts() {
  static const std::vector<int> kStarts = {0, 1, 1, 64, 64, 200, 392, 1000, 1000};
  return kStarts;
}

device::Problem PackedProblem(int sequences) {
  const int seq = Starts()[static_cast<size_t>(sequences)];
  device::Problem problem = ProblemOf(seq, seq, seq);
  problem.sequences = sequences;
  problem.starts = Starts().data();
  return problem;
}

// Each row is held once for each share of heads and columns.
template <bool kKeys>
void CheckHeld(const device::Problem& whole) {
  const device::Sides<kKeys> sides(whole);
  const int shares = (kKeys ? PARTS : 1) * COLUMN_PARTS;
  const int tiles =
      packed ? whole.rows / BLOCK_N + whole.sequences : (sides.held_rows + BLOCK_N - 1) / BLOCK_N;
  std::vector<int> held(static_cast<size_t>(sides.held_heads) * sides.held_rows);
  for (int i = 0; i < tiles * sides.held_heads * shares; ++i) {
    device::Problem problem = whole;
    const device::Held at = device::HeldBy<kKeys>(problem, i);
    ASSERT_LT(at.head, sides.held_heads);
    const int end = std::min(at.row + BLOCK_N, packed ? problem.keys : sides.held_rows);
    for (int row = at.row; row < end; ++row) {
      ++held[static_cast<size_t>(at.head) * sides.held_rows + problem.start + row];
    }
  }
  EXPECT_EQ(std::count(held.begin(), held.end(), shares), static_cast<ptrdiff_t>(held.size()));
}

TEST(AttentionBackwardRows, EveryRowIsHeldOnceForEachShare) {
  for (section = 1; section <= 64; section *= 8) {
    for (const int seq : {1, 192, 193, 1000}) {
      CheckHeld<true>(ProblemOf(seq, 500, 500));
      CheckHeld<false>(ProblemOf(seq, 500, 500));
    }
  }
}

TEST(AttentionBackwardRows, EveryRowOfPackedSequencesIsHeldOnceForEachShare) {
  packed = true;
  for (section = 1; section <= 64; section *= 8) {
    for (const int sequences : {1, 2, 6, 8}) {
      CheckHeld<true>(PackedProblem(sequences));
      CheckHeld<false>(PackedProblem(sequences));
    }
  }
  packed = false;
}

// Whole tiles of BLOCK_M rows of a sequence, so that those past its end are its own, too.
TEST(AttentionBackwardRows, FactsOfPackedSequencesAreApart) {
  packed = true;
  for (const int sequences : {1, 2, 6, 8}) {
    const device::Problem whole = PackedProblem(sequences);
    const int padded = device::FactBlocks(whole) * device::kFactRows;
    std::vector<int> sequence_starts(static_cast<size_t>(padded), -1);
    for (int place = 0; place < padded; ++place) {
      device::Problem problem = whole;
      const int row =
          device::EnterSequence<device::kFactPair>(problem, place / BLOCK_M) + place % BLOCK_M;
      EXPECT_EQ(problem.fact_start + row, place);
      sequence_starts[static_cast<size_t>(place)] = problem.fact_start;
    }
    for (int i = 0; i < sequences; ++i) {
      const int start = whole.starts[i], length = whole.starts[i + 1] - start;
      const int first = (start / BLOCK_M + i) * BLOCK_M;
      for (int row = 0; row < (length + BLOCK_M - 1) / BLOCK_M * BLOCK_M; ++row) {
        ASSERT_LT(first + row, padded);
        EXPECT_EQ(sequence_starts[static_cast<size_t>(first + row)], first) << i << " " << row;
      }
    }
  }
  packed = false;
}

template <bool kKeys>
void CheckStreamed(const device::Problem& problem) {
  SCOPED_TRACE(testing::Message() << problem.seq << " rows, " << problem.keys << " keys, window "
                                  << problem.window << ", keys are held: " << kKeys);
  const device::Sides<kKeys> sides(problem);
  for (int first = 0; first < sides.held_rows; first += BLOCK_N) {
    const device::Stream<kKeys> stream(problem, {0, 0, first, 0});
    ASSERT_GE(stream.blocks, 0);
    const int begin = stream.first_block * BLOCK_M, end = begin + stream.blocks * BLOCK_M;
    ASSERT_LT(end - sides.streamed_rows, BLOCK_M);
    for (int held = first; held < std::min(first + BLOCK_N, sides.held_rows); ++held) {
      for (int other = 0; other < sides.streamed_rows; ++other) {
        const int key = kKeys ? held : other, row = kKeys ? other : held;
        const int last = row + problem.keys - problem.seq;
        if (key > last || key <= last - problem.window) continue;
        ASSERT_TRUE(begin <= other && other < end) << "row " << row << ", key " << key;
      }
    }
  }
}

TEST(AttentionBackwardRows, EveryPairIsStreamed) {
  for (const int seq : {1, 70, 129, 400}) {
    for (const int keys : {1, 65, 300, 700}) {
      for (const int window : {1, 33, 200, 1000}) {
        CheckStreamed<true>(ProblemOf(seq, keys, window));
        CheckStreamed<false>(ProblemOf(seq, keys, window));
      }
    }
  }
}

}  // namespace
}  // namespace tune
