// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tuner/device/elements.h"

namespace tune::cpu {
namespace {

constexpr int64_t kPiece = 512;
constexpr int64_t kGrain = 4096;

void ComparePiece(const HostArray& out, const HostArray& reference, int64_t begin, int64_t end,
                  const TolerancePlan& tolerance, CompareResult& sum) {
  std::array<double, kPiece> values;
  std::array<double, kPiece> references;
  LoadElements(out.dtype, out.data, begin, end, values.data());
  LoadElements(reference.dtype, reference.data, begin, end, references.data());
  const bool same = out.dtype == reference.dtype;
  const bool with_sign = same && out.dtype == DType::kI64;
  const bool without_sign = same && out.dtype == DType::kU64;
  const auto* integers = static_cast<const int64_t*>(out.data);
  const auto* reference_integers = static_cast<const int64_t*>(reference.data);
  for (int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<size_t>(i - begin);
    const double error = with_sign ? ErrorOfIntegers(integers[i], reference_integers[i])
                         : without_sign
                             ? ErrorOfUnsigned(static_cast<uint64_t>(integers[i]),
                                               static_cast<uint64_t>(reference_integers[i]))
                             : ErrorOf(values[at], references[at]);
    AddElement(values[at], references[at], error, static_cast<unsigned long long>(i),
               tolerance.rtol, tolerance.atol, sum);
  }
}

// A step of a hash over 64-bit words; the mixing is SplitMix64's finaliser.
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
  std::vector<CompareResult> parts(launcher.thread_count(), CompareResult());
  launcher.ForPieces(out.count, kGrain, [&](unsigned thread, int64_t begin, int64_t end) {
    CompareResult sum = {};
    for (int64_t first = begin; first < end; first += kPiece) {
      ComparePiece(out, reference, first, std::min(end, first + kPiece), tolerance, sum);
    }
    parts[thread] = sum;
  });
  CompareResult total = {};
  for (const CompareResult& part : parts) Merge(part, total);
  return total;
}

uint64_t Hash(Launcher& launcher, const void* data, size_t bytes) {
  std::vector<uint64_t> parts(launcher.thread_count());
  const auto* begin_of_data = static_cast<const unsigned char*>(data);
  launcher.ForPieces(
      static_cast<int64_t>(bytes), kGrain, [&](unsigned thread, int64_t begin, int64_t end) {
        parts[thread] = HashRange(begin_of_data + begin, static_cast<size_t>(end - begin), thread);
      });
  uint64_t hash = bytes;
  for (uint64_t part : parts) hash = Finish(hash ^ part);
  return hash;
}

}  // namespace tune::cpu
