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
  void* mapping = mmap(nullptr, buffer.mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
  }
  // Large pages where there are any: as a GPU has them, and times vary less.
  madvise(mapping, buffer.mapping_bytes_, MADV_HUGEPAGE);
  buffer.mapping_ = static_cast<unsigned char*>(mapping);
  buffer.data_ = buffer.mapping_ + front;
  buffer.bytes_ = bytes;
  buffer.SetGuards();
  return buffer;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_ == nullptr) return;
  Open(data_ - kGuardBytes);
  Open(data_ + bytes_);
  munmap(mapping_, mapping_bytes_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
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
