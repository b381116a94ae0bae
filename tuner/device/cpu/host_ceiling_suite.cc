// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_ceiling_suite.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cpu/guarded_buffer.h"
#include "tuner/device/cpu/host_ceilings.h"

namespace tune::cpu {
namespace {

constexpr int64_t kBytesPerRun = 32 << 20;  // read by each thread, from its cache
constexpr int64_t kArrayBytesMin = 64 << 20;
constexpr int64_t kArrayBytesMax = 256 << 20;
constexpr int64_t kWordsMultiple = 8;

Ceiling Measured(const char* name, double value, CeilingKind kind, std::string probe) {
  return {.name = name,
          .value = value,
          .source = CeilingSource::kMeasured,
          .kind = kind,
          .probe = std::move(probe)};
}

// Each thread reads `bytes` of its own again and again. All threads together, bytes a second.
absl::StatusOr<double> CacheRate(Launcher& launcher, int64_t bytes) {
  const int64_t words = bytes / 8 / kWordsMultiple * kWordsMultiple;
  const unsigned threads = launcher.thread_count();
  ASSIGN_OR_RETURN(GuardedBuffer buffer,
                   GuardedBuffer::Allocate(static_cast<size_t>(words) * 8 * threads, 2));
  auto* data = static_cast<uint64_t*>(buffer.data());
  std::fill(data, data + words * threads, uint64_t{1});
  const int64_t passes = std::max<int64_t>(2, kBytesPerRun / (words * 8));
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<uint64_t> sums(threads);
    std::vector<double> rates(threads);
    launcher.RunOnAll([&](unsigned thread) {
      const uint64_t* mine = data + words * thread;
      sums[thread] = ReadWords(mine, words);  // into the cache
      const double begin_ns = ThreadNs();
      for (int64_t pass = 0; pass < passes; ++pass) {
        sums[thread] += ReadWords(mine, words);
        __asm__ volatile("" ::: "memory");  // each pass reads
      }
      const double seconds = (ThreadNs() - begin_ns) * 1e-9;
      rates[thread] = static_cast<double>(passes * words * 8) / seconds;
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

absl::Status AddCaches(Launcher& launcher, int64_t cache_bytes_all,
                       std::vector<Ceiling>& ceilings) {
  const int64_t first = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  const int64_t second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int64_t third = cache_bytes_all / static_cast<int64_t>(launcher.thread_count());
  const auto add = [&](const char* name, CeilingKind kind, int64_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(double rate, CacheRate(launcher, bytes));
    ceilings.push_back(Measured(name, rate, kind, absl::StrCat(bytes >> 10, " KiB a thread")));
    return absl::OkStatus();
  };
  if (first > 0) RETURN_IF_ERROR(add("l1", CeilingKind::kL1, first / 2));
  if (second > 2 * first) RETURN_IF_ERROR(add("l2", CeilingKind::kL2, second / 2));
  if (third > 2 * second) RETURN_IF_ERROR(add("l3", CeilingKind::kL3, third / 2));
  return absl::OkStatus();
}

// out = value, and out = in + 3 other, each over arrays out of all caches.
absl::Status AddMemory(Launcher& launcher, int64_t cache_bytes_all,
                       std::vector<Ceiling>& ceilings) {
  const int64_t bytes = std::clamp(2 * cache_bytes_all, kArrayBytesMin, kArrayBytesMax);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(double));
  ASSIGN_OR_RETURN(GuardedBuffer a, GuardedBuffer::Allocate(static_cast<size_t>(bytes), 3));
  ASSIGN_OR_RETURN(GuardedBuffer b, GuardedBuffer::Allocate(static_cast<size_t>(bytes), 4));
  ASSIGN_OR_RETURN(GuardedBuffer c, GuardedBuffer::Allocate(static_cast<size_t>(bytes), 5));
  auto* out = static_cast<double*>(a.data());
  auto* in = static_cast<double*>(b.data());
  auto* other = static_cast<double*>(c.data());
  launcher.ForPieces(count, kGrainWords, [&](unsigned, int64_t begin, int64_t end) {
    std::fill(out + begin, out + end, 0.0);
    std::fill(in + begin, in + end, 1.0);
    std::fill(other + begin, other + end, 2.0);
  });
  double write = 0;
  double triad = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double write_ns =
        launcher.ForPieces(count, kGrainWords, [&](unsigned, int64_t begin, int64_t end) {
          std::fill(out + begin, out + end, static_cast<double>(run));
        });
    write = std::max(write, static_cast<double>(bytes) / (write_ns * 1e-9));
    const double triad_ns =
        launcher.ForPieces(count, kGrainWords, [&](unsigned, int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] = in[i] + 3.0 * other[i];
        });
    triad = std::max(triad, 3.0 * static_cast<double>(bytes) / (triad_ns * 1e-9));
  }
  const std::string probe = absl::StrCat(bytes >> 20, " MiB arrays");
  ceilings.push_back(Measured("dram_write", write, CeilingKind::kDram, probe));
  ceilings.push_back(Measured("dram_triad", triad, CeilingKind::kDram, probe));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Ceiling>> MeasureHostCeilingSuite(Launcher& launcher,
                                                             int64_t cache_bytes_all) {
  ASSIGN_OR_RETURN(std::vector<Ceiling> ceilings, MeasureHostCeilings(launcher, cache_bytes_all));
  for (Ceiling& ceiling : ceilings) {
    const bool memory = ceiling.name.rfind("dram_", 0) == 0;
    ceiling.kind = memory ? CeilingKind::kDram : CeilingKind::kVector;
  }
  RETURN_IF_ERROR(AddMemory(launcher, cache_bytes_all, ceilings));
  RETURN_IF_ERROR(AddCaches(launcher, cache_bytes_all, ceilings));
  return ceilings;
}

}  // namespace tune::cpu
