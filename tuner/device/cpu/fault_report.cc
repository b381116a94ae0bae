// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/fault_report.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tuner/device/cpu/block_scheduler.h"

namespace tune::cpu {
namespace {

constexpr size_t kNameBytes = 72;

struct Region {
  std::atomic<bool> used{false};
  char name[kNameBytes] = {};
  uintptr_t ground_begin = 0;
  uintptr_t ground_end = 0;
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
std::array<Region, 256> regions;
constexpr char kKernel[] = "the kernel";
std::atomic<const char*> actor{kKernel};

// A line, put together by what a signal handler may call.
class Line {
 public:
  Line& operator<<(const char* text) {
    while (*text != '\0' && size_ < sizeof(text_)) text_[size_++] = *text++;
    return *this;
  }
  Line& operator<<(uint64_t number) {
    char digits[24];
    char* digit = digits + sizeof(digits);
    *--digit = '\0';
    do {
      *--digit = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    return *this << digit;
  }
  Line& operator<<(const tune_cpu::Index& index) {
    return *this << "(" << uint64_t{index.x} << "," << uint64_t{index.y} << "," << uint64_t{index.z}
                 << ")";
  }
  void Write() {
    *this << "\n";
    (void)!write(STDERR_FILENO, text_, size_);
  }

 private:
  char text_[512];
  size_t size_ = 0;
};

// The verb for the access; a neutral one if the processor does not report which it was.
const char* Verb(void* context) {
#if defined(__x86_64__)
  const auto* user = static_cast<const ucontext_t*>(context);
  return (user->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "wrote " : "read ";
#else
  (void)context;
  return "touched memory ";
#endif
}

// The default action returns, and a fault that returns faults again: the process ends as it would
// without a report.
void LetFaultsEnd() {
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}

void OnFault(int, siginfo_t* info, void* context) {
  // Blocks run on several threads: who faults beside the first waits for the end that it brings,
  // so that it ends the process with its line written.
  static std::atomic_flag reported = ATOMIC_FLAG_INIT;
  while (reported.test_and_set()) pause();
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  Line line;
  line << actor.load() << " " << Verb(context);
  const Region* found = nullptr;
  for (const Region& region : regions) {
    const bool inside = address >= region.ground_begin && address < region.ground_end;
    if (region.used.load(std::memory_order_acquire) && inside) found = &region;
  }
  if (found == nullptr) {
    line << "outside of all its buffers";
  } else if (address >= found->end) {
    line << uint64_t{address - found->end} << " bytes past the end of " << found->name;
  } else if (address < found->begin) {
    line << uint64_t{found->begin - address} << " bytes before the begin of " << found->name;
  } else {
    line << "to " << found->name << ", which it may only read";
  }
  if (found != nullptr) line << " (" << uint64_t{found->end - found->begin} << " bytes)";
  const tune_cpu::State& state = BlockScheduler::ThreadState();
  line << ", in block " << state.block << ", thread " << state.thread;
  line.Write();
  LetFaultsEnd();
}

}  // namespace

FaultRegion::FaultRegion(const std::string& name, const void* ground, size_t ground_bytes,
                         const void* data, size_t data_bytes) {
  for (size_t i = 0; i < regions.size(); ++i) {
    Region& region = regions[i];
    if (region.used.load(std::memory_order_relaxed)) continue;
    std::strncpy(region.name, name.c_str(), kNameBytes - 1);
    region.ground_begin = reinterpret_cast<uintptr_t>(ground);
    region.ground_end = region.ground_begin + ground_bytes;
    region.begin = reinterpret_cast<uintptr_t>(data);
    region.end = region.begin + data_bytes;
    region.used.store(true, std::memory_order_release);
    place_ = static_cast<int>(i);
    return;
  }
}

FaultRegion::~FaultRegion() {
  if (place_ >= 0) regions[static_cast<size_t>(place_)].used.store(false);
}

FaultRegion::FaultRegion(FaultRegion&& other) noexcept : place_(std::exchange(other.place_, -1)) {}

FaultRegion& FaultRegion::operator=(FaultRegion&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

FaultActor::FaultActor(const char* name) { actor.store(name); }
FaultActor::~FaultActor() { actor.store(kKernel); }

void DescribeFaults() {
  if (dlsym(RTLD_DEFAULT, "__asan_poison_memory_region") != nullptr) return;  // it says more
  struct sigaction action = {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tune::cpu
