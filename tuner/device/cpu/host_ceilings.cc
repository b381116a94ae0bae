// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/host_ceilings.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "tuner/device/cpu/guarded_buffer.h"

namespace tune::cpu {
namespace {

constexpr int kChains = 12;
constexpr int64_t kSteps = 512 << 10;
constexpr int kPasses = 6;
constexpr int kPassesMore = 12;  // where what was measured cannot be
constexpr int kPartsPerPass = 4;
constexpr int64_t kCopyBytesMin = 128 << 20;  // of each of the two buffers
constexpr int64_t kCopyBytesMax = 512 << 20;

// Twelve independent chains of multiply-adds: one takes four cycles, and two can begin in each.
// Every value tends to a fixed point, so none overflows or falls among the slow subnormal numbers.
// The empty assembly keeps each value in a register of the kind `place` and every step in the loop.
#define TUNE_EACH_CHAIN(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define TUNE_CHAINS(name, Real, bytes, place, target)        \
  target double name(int64_t steps) {                        \
    typedef Real Vector __attribute__((vector_size(bytes))); \
    const Vector factor = Vector{} + static_cast<Real>(0.5); \
    const Vector term = Vector{} + static_cast<Real>(0.25);  \
    Vector sum = Vector{};                                   \
    TUNE_EACH_CHAIN(TUNE_BEGIN)                              \
    for (int64_t step = 0; step < steps; ++step) {           \
      TUNE_EACH_CHAIN(TUNE_STEP_##place)                     \
    }                                                        \
    TUNE_EACH_CHAIN(TUNE_END)                                \
    return static_cast<double>(sum[0]);                      \
  }
#define TUNE_BEGIN(i) Vector chain##i = term * (i + 1);
#define TUNE_STEP_v(i)                 \
  chain##i = chain##i * factor + term; \
  __asm__ volatile("" : "+v"(chain##i));
#define TUNE_STEP_x(i)                 \
  chain##i = chain##i * factor + term; \
  __asm__ volatile("" : "+x"(chain##i));
#define TUNE_STEP_w(i)                 \
  chain##i = chain##i * factor + term; \
  __asm__ volatile("" : "+w"(chain##i));
#define TUNE_END(i) sum += chain##i;

using Chains = double (*)(int64_t steps);
struct Arithmetic {
  Chains f32 = nullptr;
  Chains f64 = nullptr;
  int64_t vector_bytes = 0;
};

#if defined(__x86_64__)
TUNE_CHAINS(ChainsF32Avx512, float, 64, v, __attribute__((target("avx512f"))))
TUNE_CHAINS(ChainsF64Avx512, double, 64, v, __attribute__((target("avx512f"))))
TUNE_CHAINS(ChainsF32Avx2, float, 32, x, __attribute__((target("avx2,fma"))))
TUNE_CHAINS(ChainsF64Avx2, double, 32, x, __attribute__((target("avx2,fma"))))
TUNE_CHAINS(ChainsF32Sse2, float, 16, x, )
TUNE_CHAINS(ChainsF64Sse2, double, 16, x, )

std::vector<Arithmetic> UsableArithmetic() {
  std::vector<Arithmetic> usable = {{ChainsF32Sse2, ChainsF64Sse2, 16}};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back({ChainsF32Avx2, ChainsF64Avx2, 32});
  }
  if (__builtin_cpu_supports("avx512f")) {
    usable.push_back({ChainsF32Avx512, ChainsF64Avx512, 64});
  }
  return usable;
}
#else
TUNE_CHAINS(ChainsF32, float, 16, w, )
TUNE_CHAINS(ChainsF64, double, 16, w, )

std::vector<Arithmetic> UsableArithmetic() { return {{ChainsF32, ChainsF64, 16}}; }
#endif

// The rate of all threads together, in operations per second.
double FlopsPerSecond(Launcher& launcher, Chains chains, int64_t lanes) {
  const double operations = 2.0 * kChains * static_cast<double>(kSteps * lanes);
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> sums(launcher.thread_count());
    std::vector<double> rates(launcher.thread_count());
    launcher.RunOnAll([&](unsigned thread) {
      const double begin_ns = ThreadNs();
      sums[thread] = chains(kSteps);
      rates[thread] = operations / ((ThreadNs() - begin_ns) * 1e-9);
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

// Bytes a second of all threads together, in one run.
struct MemoryRun {
  double rate = 0;  // by the wall clock
  // By the processor time of each thread: above `rate` where the threads had to share their
  // processors with others.
  double undisturbed = 0;
};

// The best of many runs. Its spread says how much more a quiet host may reach: as much as the best
// run would have without the time that others had, or as far above it as that is above the middle
// run.
Ceiling CeilingOf(const char* name, std::vector<MemoryRun> runs) {
  const auto slower = [](const MemoryRun& a, const MemoryRun& b) { return a.rate < b.rate; };
  std::sort(runs.begin(), runs.end(), slower);
  const MemoryRun& best = runs.back();
  const double middle = runs[runs.size() / 2].rate;
  return {.name = name,
          .value = best.rate,
          .source = CeilingSource::kMeasured,
          .low = middle,
          .high = std::max(best.undisturbed, best.rate * best.rate / middle)};
}

// Runs `work` on each thread's share of `words`, of which it moves `bytes_per_word` bytes each.
MemoryRun TimeMemory(Launcher& launcher, int64_t words, double bytes_per_word,
                     absl::FunctionRef<void(unsigned, int64_t, int64_t)> work) {
  std::vector<double> rates(launcher.thread_count());
  const double ns = launcher.ForPieces(words, kGrainWords, [&](unsigned i, int64_t a, int64_t b) {
    const double begin_ns = ThreadNs();
    work(i, a, b);
    rates[i] = bytes_per_word * static_cast<double>(b - a) / ((ThreadNs() - begin_ns) * 1e-9);
  });
  return {.rate = bytes_per_word * static_cast<double>(words) / (ns * 1e-9),
          .undisturbed = std::accumulate(rates.begin(), rates.end(), 0.0)};
}

absl::StatusOr<std::vector<Ceiling>> MeasureMemory(Launcher& launcher, int64_t cache_bytes_all) {
  const int64_t bytes = std::clamp(2 * cache_bytes_all, kCopyBytesMin, kCopyBytesMax);
  ASSIGN_OR_RETURN(GuardedBuffer from, GuardedBuffer::Allocate(static_cast<size_t>(bytes), 0));
  ASSIGN_OR_RETURN(GuardedBuffer to, GuardedBuffer::Allocate(static_cast<size_t>(bytes), 1));
  auto* source = static_cast<uint64_t*>(from.data());
  auto* target = static_cast<uint64_t*>(to.data());
  const int64_t words = bytes / 8;
  // Written first, each part by the thread that uses it: unwritten pages are all one page of zeros.
  launcher.ForPieces(words, kGrainWords, [&](unsigned, int64_t begin, int64_t end) {
    std::fill(source + begin, source + end, uint64_t{1});
    std::fill(target + begin, target + end, uint64_t{2});
  });
  std::vector<MemoryRun> copies;
  std::vector<MemoryRun> reads;
  std::vector<uint64_t> sums(launcher.thread_count());
  // A part at a time: short, and out of all caches again when its turn comes in the next pass.
  const int64_t part = words / kPartsPerPass;
  const auto pass = [&] {
    for (int64_t begin = 0; begin < kPartsPerPass * part; begin += part) {
      const uint64_t* in = source + begin;
      uint64_t* out = target + begin;
      copies.push_back(TimeMemory(launcher, part, 16, [&](unsigned, int64_t a, int64_t b) {
        std::memcpy(out + a, in + a, static_cast<size_t>(b - a) * 8);
      }));
    }
    for (int64_t begin = 0; begin < kPartsPerPass * part; begin += part) {
      const uint64_t* one = source + begin;
      const uint64_t* other = target + begin;
      reads.push_back(TimeMemory(launcher, part, 16, [&](unsigned i, int64_t a, int64_t b) {
        sums[i] += ReadWords(one + a, b - a) + ReadWords(other + a, b - a);
      }));
    }
  };
  for (int i = 0; i < kPasses; ++i) pass();
  Ceiling copy = CeilingOf("dram_copy", copies);
  Ceiling read = CeilingOf("dram_read", reads);
  // Reading alone is no slower than reading and writing: where it seems so, others were at work.
  for (int i = 0; i < kPassesMore && read.value < copy.value; ++i) {
    pass();
    copy = CeilingOf("dram_copy", copies);
    read = CeilingOf("dram_read", reads);
  }
  read.high = std::max(read.high, copy.high);
  return std::vector<Ceiling>{std::move(copy), std::move(read)};
}

}  // namespace

double ThreadNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

uint64_t ReadWords(const uint64_t* data, int64_t count) {
  // A width that every processor has. Sums that depended on each other would wait for each load.
  typedef uint64_t Vector __attribute__((vector_size(16), aligned(8), may_alias));
  const auto* vectors = reinterpret_cast<const Vector*>(data);
  Vector a = {};
  Vector b = {};
  Vector c = {};
  Vector d = {};
  for (int64_t i = 0; i + 4 <= count / 2; i += 4) {
    a += vectors[i];
    b += vectors[i + 1];
    c += vectors[i + 2];
    d += vectors[i + 3];
  }
  const Vector sum = a + b + c + d;
  return sum[0] + sum[1];
}

absl::StatusOr<std::vector<Ceiling>> MeasureHostCeilings(Launcher& launcher,
                                                         int64_t cache_bytes_all) {
  double f32 = 0;
  double f64 = 0;
  // The widest vectors are not the fastest everywhere.
  for (const Arithmetic& arithmetic : UsableArithmetic()) {
    f32 = std::max(f32, FlopsPerSecond(launcher, arithmetic.f32, arithmetic.vector_bytes / 4));
    f64 = std::max(f64, FlopsPerSecond(launcher, arithmetic.f64, arithmetic.vector_bytes / 8));
  }
  std::vector<Ceiling> ceilings = {{"f32", f32, CeilingSource::kMeasured},
                                   {"f64", f64, CeilingSource::kMeasured}};
  ASSIGN_OR_RETURN(std::vector<Ceiling> memory, MeasureMemory(launcher, cache_bytes_all));
  std::move(memory.begin(), memory.end(), std::back_inserter(ceilings));
  return ceilings;
}

}  // namespace tune::cpu
