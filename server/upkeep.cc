// SPDX-License-Identifier: Apache-2.0
#include "server/upkeep.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "server/supervision/process_tree.h"

namespace tune::server {
namespace {

constexpr std::chrono::seconds kPeriod(1);
constexpr int kPeriodsOfTrim = 5;
constexpr uint64_t kGrowthKept = 32 << 20;

// A burst of requests leaves free memory in pieces between what is in use, which the C library
// keeps for itself unless it is asked. `least` is what was resident after it was asked last.
void GiveFreedMemoryBack(uint64_t& least) {
  const uint64_t before = ResidentBytesOf(getpid());
#ifdef __GLIBC__
  if (before > least + kGrowthKept) malloc_trim(0);
#endif
  least = before > least + kGrowthKept ? ResidentBytesOf(getpid()) : std::min(least, before);
}

}  // namespace

size_t OpenFilesMax() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  return static_cast<size_t>(files.rlim_cur);
}

size_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  // The iterator has one itself.
  const auto count = std::distance(begin(open), std::filesystem::directory_iterator());
  return error || count == 0 ? 0 : static_cast<size_t>(count - 1);
}

Upkeep::Upkeep(std::function<void()> again)
    : again_(std::move(again)), thread_([this] { Loop(); }) {}

Upkeep::~Upkeep() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Upkeep::Loop() {
  MutexLock lock(mutex_);
  uint64_t least = ResidentBytesOf(getpid());
  for (int period = 1;
       !changed_.wait_for(lock.native(), kPeriod,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
       ++period) {
    lock.Unlock();
    again_();
    if (period % kPeriodsOfTrim == 0) GiveFreedMemoryBack(least);
    lock.Lock();
  }
}

}  // namespace tune::server
