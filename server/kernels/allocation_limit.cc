// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/allocation_limit.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tune::server {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// Plain numbers: they are used while a thread starts and ends.
thread_local size_t bytes_max_of_thread = kUnlimited;
thread_local size_t bytes_held = 0;

// False if the thread would hold too much.
bool Count(void* memory) {
  bytes_held += malloc_usable_size(memory);
  return bytes_held <= bytes_max_of_thread;
}

void* Allocate(size_t bytes, size_t alignment) noexcept {
  const bool is_counted = bytes_max_of_thread != kUnlimited;
  // Before it is asked for: a single array may be all of the host's memory.
  if (is_counted && bytes > bytes_max_of_thread - std::min(bytes_held, bytes_max_of_thread)) {
    return nullptr;
  }
  bytes = std::max<size_t>(bytes, 1);
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* memory = alignment <= alignof(std::max_align_t) ? std::malloc(bytes)
                                                        : std::aligned_alloc(alignment, whole);
  if (memory == nullptr || !is_counted || Count(memory)) return memory;
  bytes_held -= malloc_usable_size(memory);
  std::free(memory);
  return nullptr;
}

[[maybe_unused]] void* AllocateOrThrow(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
  if (void* memory = Allocate(bytes, alignment); memory != nullptr) return memory;
  throw std::bad_alloc();
}

// Memory from before the limit may be freed while it holds: what is held is never less than none.
[[maybe_unused]] void Free(void* memory) noexcept {
  if (memory != nullptr && bytes_max_of_thread != kUnlimited) {
    bytes_held -= std::min(bytes_held, malloc_usable_size(memory));
  }
  std::free(memory);
}

}  // namespace

absl::Status RunWithin(size_t bytes_max, absl::FunctionRef<absl::Status()> work) {
  if (bytes_max_of_thread != kUnlimited) return work();
  const absl::Cleanup unlimited = [] { bytes_max_of_thread = kUnlimited; };
  bytes_held = 0;
  bytes_max_of_thread = bytes_max;
  try {
    return work();
  } catch (const std::bad_alloc&) {
    bytes_max_of_thread = kUnlimited;  // for the error
    return absl::ResourceExhaustedError(
        absl::StrCat("it takes more than ", bytes_max >> 20, " MiB of memory"));
  }
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace tune::server

// The array operators, which are not defined here, call these. Sanitizers have operators of their
// own, which find more without these in between; then nothing is counted.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) { return tune::server::AllocateOrThrow(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return tune::server::AllocateOrThrow(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return tune::server::Allocate(bytes, alignof(std::max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return tune::server::Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { tune::server::Free(memory); }
void operator delete(void* memory, size_t) noexcept { tune::server::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { tune::server::Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  tune::server::Free(memory);
}
#endif
