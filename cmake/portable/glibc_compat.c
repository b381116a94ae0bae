// SPDX-License-Identifier: Apache-2.0
// The functions of glibc 2.36 that objects made on a Debian 12 refer to and glibc 2.28 lacks. A
// wheel's programs and libtune have them inside, hidden. A function that the host's glibc has is
// called there.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

typedef int Clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
typedef int AddClosefrom(posix_spawn_file_actions_t*, int);
typedef int AddChdir(posix_spawn_file_actions_t*, const char*);
static Clockwait* host_clockwait;
static AddClosefrom* host_addclosefrom;
static AddChdir* host_addchdir;

__attribute__((constructor)) static void FindInHost(void) {
  host_clockwait = (Clockwait*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  host_addclosefrom =
      (AddClosefrom*)dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
  host_addchdir = (AddChdir*)dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addchdir_np");
}

// Since 2.32. False: the C++ library counts references atomically, which is right with one thread,
// too.
char __libc_single_threaded = 0;

// Since 2.30.
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// Since 2.36.
uint32_t arc4random(void) {
  uint32_t value = 0;
  ssize_t count;
  do {
    count = getrandom(&value, sizeof(value), 0);
  } while (count < 0 && errno == EINTR);
  if (count != (ssize_t)sizeof(value)) abort();
  return value;
}

// Since 2.30. Before it, the wait is by the real-time clock: a clock that is set meanwhile makes it
// end early, which a caller has to expect of any wait, or late.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  if (host_clockwait != NULL) return host_clockwait(condition, mutex, clock, until);
  struct timespec now, now_real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &now_real);
  now_real.tv_sec += until->tv_sec - now.tv_sec;
  now_real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (now_real.tv_nsec < 0) --now_real.tv_sec, now_real.tv_nsec += 1000000000;
  if (now_real.tv_nsec >= 1000000000) ++now_real.tv_sec, now_real.tv_nsec -= 1000000000;
  if (now_real.tv_sec < 0) now_real.tv_sec = now_real.tv_nsec = 0;
  return pthread_cond_timedwait(condition, mutex, &now_real);
}

// Since 2.34. Before it, the child closes what is open now and would outlive exec. A descriptor
// without O_CLOEXEC that another thread opens between this call and the child's start is not
// closed: tunectl opens none.
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int from) {
  if (host_addclosefrom != NULL) return host_addclosefrom(actions, from);
  DIR* folder = opendir("/proc/self/fd");
  if (folder == NULL) return errno;
  int error = 0;
  for (struct dirent* entry; error == 0 && (entry = readdir(folder)) != NULL;) {
    const int fd = atoi(entry->d_name);
    const int flags = fd < from ? -1 : fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0)
      error = posix_spawn_file_actions_addclose(actions, fd);
  }
  closedir(folder);
  return error;
}

// Since 2.29. Before it, this process changes its own folder: only the workers that start the CPU
// device's compiler ask for one, and these know no relative paths.
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* actions, const char* path) {
  if (host_addchdir != NULL) return host_addchdir(actions, path);
  return chdir(path) == 0 ? 0 : errno;
}

#pragma GCC visibility pop
