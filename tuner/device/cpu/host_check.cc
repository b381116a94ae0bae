// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tuner/device/elements.h"

namespace tune::cpu {
namespace {

constexpr int64_t kPiece = 512;
constexpr int64_t kGrain = 4096;
// Below this size a relative error says nothing.
constexpr double kTiny = 1e-30;

CompareResult Nothing() {
  CompareResult none;
  none.worst_excess = -std::numeric_limits<double>::infinity();
  return none;
}

void Add(const CompareResult& more, CompareResult& sum) {
  if (more.worst_index >= 0 && (sum.worst_index < 0 || more.worst_excess > sum.worst_excess)) {
    sum.worst_excess = more.worst_excess;
    sum.worst_index = more.worst_index;
    sum.worst_value = more.worst_value;
    sum.worst_reference = more.worst_reference;
  }
  sum.max_abs = std::max(sum.max_abs, more.max_abs);
  sum.max_rel = std::max(sum.max_rel, more.max_rel);
  sum.error_squares += more.error_squares;
  sum.reference_squares += more.reference_squares;
  sum.bad += more.bad;
  sum.nan += more.nan;
}

void CompareOne(double value, double reference, int64_t index, const TolerancePlan& tolerance,
                CompareResult& sum) {
  const double size = std::abs(reference);
  // Equal infinities differ by nothing.
  const double error = value == reference ? 0.0 : std::abs(value - reference);
  const double allowed = tolerance.atol + (tolerance.rtol > 0 ? tolerance.rtol * size : 0.0);
  double excess = value == reference ? -tolerance.atol : error - allowed;
  if (std::isnan(excess)) {
    // NaN, or an infinity where the tolerance is infinite as well.
    ++sum.nan;
    ++sum.bad;
    excess = std::numeric_limits<double>::infinity();
  } else {
    sum.bad += excess > 0 ? 1 : 0;
    sum.max_abs = std::max(sum.max_abs, error);
    if (size > kTiny) sum.max_rel = std::max(sum.max_rel, error / size);
    sum.error_squares += error * error;
    sum.reference_squares += reference * reference;
  }
  if (sum.worst_index < 0 || excess > sum.worst_excess) {
    sum.worst_excess = excess;
    sum.worst_index = index;
    sum.worst_value = value;
    sum.worst_reference = reference;
  }
}

void ComparePiece(const HostArray& out, const HostArray& reference, int64_t begin, int64_t end,
                  const TolerancePlan& tolerance, CompareResult& sum) {
  std::array<double, kPiece> values;
  std::array<double, kPiece> references;
  LoadElements(out.dtype, out.data, begin, end, values.data());
  LoadElements(reference.dtype, reference.data, begin, end, references.data());
  const bool exact = out.dtype == DType::kI64 && reference.dtype == DType::kI64;
  const auto* whole = static_cast<const int64_t*>(out.data);
  const auto* whole_reference = static_cast<const int64_t*>(reference.data);
  for (int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<size_t>(i - begin);
    // A double cannot tell neighbours of 2^53 apart.
    if (exact && values[at] == references[at] && whole[i] != whole_reference[i]) {
      values[at] = std::nextafter(values[at], std::numeric_limits<double>::infinity());
    }
    CompareOne(values[at], references[at], i, tolerance, sum);
  }
}

// One step of a hash over 64-bit words, and the finaliser of SplitMix64.
uint64_t Step(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xd6e8feb86659fd93ull;
  return hash ^ (hash >> 32);
}
uint64_t Finish(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t HashRange(const unsigned char* data, size_t bytes, uint64_t start) {
  // Four chains: one would wait for its own multiplications.
  std::array<uint64_t, 4> chains = {start, start + 1, start + 2, start + 3};
  size_t offset = 0;
  for (; offset + 32 <= bytes; offset += 32) {
    for (size_t chain = 0; chain < 4; ++chain) {
      uint64_t word;
      std::memcpy(&word, data + offset + 8 * chain, 8);
      chains[chain] = Step(chains[chain], word);
    }
  }
  for (; offset < bytes; ++offset) chains[0] = Step(chains[0], data[offset] + 1);
  return Finish(chains[0]) + 3 * Finish(chains[1]) + 5 * Finish(chains[2]) + 7 * Finish(chains[3]);
}

}  // namespace

CompareResult Compare(Launcher& launcher, const HostArray& out, const HostArray& reference,
                      const TolerancePlan& tolerance) {
  std::vector<CompareResult> parts(launcher.thread_count(), Nothing());
  launcher.ForPieces(out.count, kGrain, [&](unsigned thread, int64_t begin, int64_t end) {
    CompareResult sum = Nothing();
    for (int64_t first = begin; first < end; first += kPiece) {
      ComparePiece(out, reference, first, std::min(end, first + kPiece), tolerance, sum);
    }
    parts[thread] = sum;
  });
  CompareResult total = Nothing();
  for (const CompareResult& part : parts) Add(part, total);
  return total;
}

uint64_t Hash(Launcher& launcher, const void* data, size_t bytes) {
  std::vector<uint64_t> parts(launcher.thread_count());
  const auto* begin_of_data = static_cast<const unsigned char*>(data);
  launcher.ForPieces(static_cast<int64_t>(bytes), kGrain,
                     [&](unsigned thread, int64_t begin, int64_t end) {
                       parts[thread] = HashRange(begin_of_data + begin,
                                                 static_cast<size_t>(end - begin), thread);
                     });
  uint64_t hash = bytes;
  for (uint64_t part : parts) hash = Finish(hash ^ part);
  return hash;
}

}  // namespace tune::cpu
