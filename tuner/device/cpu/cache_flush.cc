// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/cache_flush.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tune::cpu {
namespace {

// The shortest line there is: on processors with longer ones some are dropped twice.
constexpr size_t kLineBytes = 64;

#if defined(__x86_64__)
bool HasClflushopt() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && ((ebx >> 23) & 1u) != 0;
}

void Flush(const char* begin, const char* end) {
  static const bool has_clflushopt = HasClflushopt();
  for (const char* line = begin; line < end; line += kLineBytes) {
    if (has_clflushopt) {
      __asm__ volatile("clflushopt (%0)" : : "r"(line) : "memory");
    } else {
      __builtin_ia32_clflush(line);  // waits for each line
    }
  }
  __builtin_ia32_mfence();
}
#else
// AArch64: Linux lets programs do it.
void Flush(const char* begin, const char* end) {
  for (const char* line = begin; line < end; line += kLineBytes) {
    __asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
  }
  __asm__ volatile("dsb sy" : : : "memory");
}
#endif

}  // namespace

void FlushFromCaches(const void* data, size_t bytes) {
  const char* begin = static_cast<const char*>(data);
  if (bytes == 0) return;
  Flush(begin, begin + bytes);
  // Lines begin at multiples of their size, the range perhaps not: its last one may be left.
  Flush(begin + bytes - 1, begin + bytes);
}

}  // namespace tune::cpu
