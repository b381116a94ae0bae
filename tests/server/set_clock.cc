// SPDX-License-Identifier: Apache-2.0
#include "tests/server/set_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    time->tv_sec += tune::g_clock_set_by_seconds;
  }
  return result;
}
