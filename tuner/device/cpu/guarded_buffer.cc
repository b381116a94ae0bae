// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/guarded_buffer.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "tuner/device/cpu/guard_zone.h"

namespace tune::cpu {
namespace {

constexpr size_t kStaggerBytes = 192;
constexpr size_t kStaggers = 16;
constexpr size_t kGroundBytes = size_t{2} << 20;  // on each side; a multiple of large pages

// With the address sanitizer in the process, a kernel that only reads a guard is stopped, too.
using Poison = void (*)(const volatile void* address, size_t bytes);
void MarkGuard(const char* function, const unsigned char* guard) {
  const auto mark = reinterpret_cast<Poison>(dlsym(RTLD_DEFAULT, function));
  // The sanitizer counts in words of 8 bytes: the guard's first word may hold data as well.
  if (mark != nullptr) mark(guard, GuardedBuffer::kGuardBytes);
}
void Close(const unsigned char* guard) { MarkGuard("__asan_poison_memory_region", guard); }
void Open(const unsigned char* guard) { MarkGuard("__asan_unpoison_memory_region", guard); }

}  // namespace

absl::StatusOr<GuardedBuffer> GuardedBuffer::Allocate(size_t bytes, unsigned index) {
  GuardedBuffer buffer;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t front = kGuardBytes + index % kStaggers * kStaggerBytes;
  const size_t wanted = front + bytes + kGuardBytes;
  buffer.mapping_bytes_ = (wanted + page - 1) / page * page;
  void* ground = mmap(nullptr, buffer.mapping_bytes_ + 2 * kGroundBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char* mapping = static_cast<unsigned char*>(ground) + kGroundBytes;
  if (ground != MAP_FAILED) buffer.ground_ = static_cast<unsigned char*>(ground);
  if (ground == MAP_FAILED ||
      mprotect(mapping, buffer.mapping_bytes_, PROT_READ | PROT_WRITE) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
  }
  // Large pages where there are any: as a GPU has them, and times vary less.
  madvise(mapping, buffer.mapping_bytes_, MADV_HUGEPAGE);
  buffer.mapping_ = mapping;
  buffer.data_ = buffer.mapping_ + front;
  buffer.bytes_ = bytes;
  buffer.SetGuards();
  return buffer;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ != nullptr) {
    Open(data_ - kGuardBytes);
    Open(data_ + bytes_);
  }
  if (ground_ != nullptr) munmap(ground_, mapping_bytes_ + 2 * kGroundBytes);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : ground_(std::exchange(other.ground_, nullptr)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      region_(std::move(other.region_)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(ground_, other.ground_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(region_, other.region_);
  return *this;
}

void GuardedBuffer::Name(const std::string& name) {
  region_ = FaultRegion(name, ground_, mapping_bytes_ + 2 * kGroundBytes, data_, bytes_);
}

void GuardedBuffer::SetGuards() {
  for (unsigned char* guard : {data_ - kGuardBytes, data_ + bytes_}) {
    Open(guard);
    FillGuard(guard, kGuardBytes);
    Close(guard);
  }
}

std::string GuardedBuffer::DescribeDamage() const {
  for (GuardSide side : {GuardSide::kBefore, GuardSide::kAfter}) {
    const unsigned char* guard = side == GuardSide::kAfter ? data_ + bytes_ : data_ - kGuardBytes;
    Open(guard);
    std::string damage = DescribeGuard(guard, kGuardBytes, side);
    Close(guard);
    if (!damage.empty()) return damage;
  }
  return "";
}

void GuardedBuffer::MakeReadOnly() { mprotect(mapping_, mapping_bytes_, PROT_READ); }

}  // namespace tune::cpu
