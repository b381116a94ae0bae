// SPDX-License-Identifier: Apache-2.0
// Shared by the acts. An act is a function without parameters that returns its outcome: kThrough,
// or Held(errno). kAttempted: only an observer outside can tell.
#pragma once

#undef clock
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syscall.h>
#include <unistd.h>

#include "where.h"

// Declared by hand: their headers need words that the prelude bans.
enum { SIGKILL = 9, SIGTERM = 15, SIGCHLD = 17, SIGURG = 23, SIGXFSZ = 25 };
extern "C" int kill(pid_t, int) noexcept;
extern "C" void (*signal(int, void (*)(int)) noexcept)(int);
extern "C" int clock_gettime(int, timespec*) noexcept;
#define IGNORED reinterpret_cast<void (*)(int)>(1)

constexpr int kThrough = 1;
constexpr int kAttempted = 2;
inline int Held(int error) { return 1000 + error; }
inline int Judge(long result) { return result < 0 ? Held(errno) : kThrough; }

#define STORE STATE "/tune.db"

inline double NowSeconds() {
  timespec now;
  clock_gettime(1, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Whoever looks for survivors knows them by this name.
inline void TakeName() { strncpy(program_invocation_name, "hostile!", 8); }

// A process that an act leaves behind: it ends by itself.
[[noreturn]] inline void Linger() {
  TakeName();
  for (int fd = 0; fd < 64; ++fd) close(fd);
  const double end = NowSeconds() + SECONDS;
  while (NowSeconds() < end) usleep(50000);
  _exit(0);
}

// Reads a file up to a limit; returns the outcome as an act's verdict.
inline int ReadFile(const char* path) {
  static char text[4096];
  const int fd = open(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return Held(errno);
  const long got = read(fd, text, sizeof(text));
  const int error = errno;
  close(fd);
  return got < 0 ? Held(error) : kThrough;
}

inline int ListFolder(const char* path) {
  static char entries[4096];
  const int fd = open(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return Held(errno);
  const long got = syscall(SYS_getdents64, fd, entries, sizeof(entries));
  const int error = errno;
  close(fd);
  return got < 0 ? Held(error) : kThrough;
}

// The folder this process may write to, if any: the argument after "--scratch" on its command line.
inline const char* Scratch() {
  static char line[4096];
  const int fd = open("/proc/self/cmdline", O_RDONLY);
  long size = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
  if (fd >= 0) close(fd);
  for (long at = 0; at < size; at += static_cast<long>(strlen(line + at)) + 1) {
    if (strcmp(line + at, "--scratch") == 0) return line + at + 10;
  }
  return OUTSIDE;
}

inline const char* InScratch(const char* name) {
  static char path[4200];
  snprintf(path, sizeof(path), "%s/%s-%s", Scratch(), name, NONCE);
  return path;
}

#if defined(__x86_64__)
// Runs machine code that is none of the compiler's.
inline long RunBytes(const unsigned char* code, unsigned size) {
  const long at = syscall(SYS_mmap, 0, 4096, 7, 0x22, -1, 0);  // private, anonymous, rwx
  if (at == -1) return -errno;
  memcpy(reinterpret_cast<void*>(at), code, size);
  return reinterpret_cast<long (*)()>(at)();
}
#endif
