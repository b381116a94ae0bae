// SPDX-License-Identifier: Apache-2.0
// Files that are not the kernel's: the store, keys, others' sources, the host's.
#include "attack.h"

#define ACT_ON_STORE(name, call) \
  static int name() { return Judge(call); }

ACT_ON_STORE(truncate_store, syscall(SYS_truncate, STORE, 0))
ACT_ON_STORE(unlink_store, unlink(STORE))
ACT_ON_STORE(unlink_wal, unlink(STORE "-wal"))
ACT_ON_STORE(rename_store, rename(STORE, STORE "-" NONCE))
ACT_ON_STORE(rename_state, rename(STATE, STATE "-" NONCE))
ACT_ON_STORE(chmod_store, syscall(SYS_fchmodat, AT_FDCWD, STORE, 0666))
ACT_ON_STORE(chmod_state, syscall(SYS_fchmodat, AT_FDCWD, STATE, 0777))
ACT_ON_STORE(chmod_state_2, syscall(452, AT_FDCWD, STATE, 0777, 0))  // fchmodat2
ACT_ON_STORE(chown_state, syscall(SYS_fchownat, AT_FDCWD, STATE, 65534, 65534, 0))
ACT_ON_STORE(set_times, syscall(SYS_utimensat, AT_FDCWD, STORE, 0, 0))
ACT_ON_STORE(set_attribute, syscall(SYS_setxattr, STATE, "user.hostile", "1", 1, 0))
ACT_ON_STORE(remove_attribute, syscall(SYS_removexattr, STATE, "user.planted"))
ACT_ON_STORE(make_folder, syscall(SYS_mkdirat, AT_FDCWD, STATE "/" NONCE, 0700))
ACT_ON_STORE(make_fifo, syscall(SYS_mknodat, AT_FDCWD, STATE "/fifo" NONCE, 0010600, 0))
ACT_ON_STORE(link_store_here, link(STORE, InScratch("store")))
ACT_ON_STORE(symlink_in_state, symlink("/etc/shadow", STATE "/link" NONCE))
ACT_ON_STORE(write_store, open(STORE, O_RDWR))
ACT_ON_STORE(open_truncating, open(STORE, O_RDONLY | O_TRUNC))
ACT_ON_STORE(create_in_state, open(STATE "/new" NONCE, O_CREAT | O_WRONLY, 0600))
ACT_ON_STORE(create_outside, open(OUTSIDE "/new" NONCE, O_CREAT | O_WRONLY, 0600))
ACT_ON_STORE(create_in_tmp, open("/tmp/new" NONCE, O_CREAT | O_WRONLY, 0600))
ACT_ON_STORE(unnamed_file, open(STATE, O_TMPFILE | O_RDWR, 0600))
ACT_ON_STORE(change_root, chroot(STATE))
ACT_ON_STORE(mount_over_state, syscall(SYS_mount, "none", STATE, "tmpfs", 0, 0))
ACT_ON_STORE(move_out_of_mounts, syscall(SYS_pivot_root, STATE, STATE))
ACT_ON_STORE(new_mount_api, syscall(SYS_fsopen, "tmpfs", 0))
ACT_ON_STORE(clone_mount, syscall(SYS_open_tree, AT_FDCWD, "/", 1))
ACT_ON_STORE(take_lock, open(STORE ".lock", O_RDWR))
ACT_ON_STORE(watch_state,
             syscall(SYS_inotify_add_watch, syscall(SYS_inotify_init1, 0), STATE, 0xfff))
ACT_ON_STORE(watch_everything, syscall(SYS_fanotify_init, 0, 0))

static int ftruncate_store() {
  const int fd = open(STORE, O_RDONLY);
  if (fd < 0) return Held(errno);
  const int writable = open("/proc/self/fd/3", O_RDWR);
  if (writable >= 0) close(writable);
  return ftruncate(fd, 0) == 0 ? kThrough : kAttempted;
}

// The mode of what can be named can be changed by its descriptor.
static int fchmod_by_path_only() {
  const int fd = open(STATE, O_PATH);
  if (fd < 0) return Held(errno);
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const int verdict = Judge(syscall(SYS_fchmodat, AT_FDCWD, path, 0777));
  close(fd);
  return verdict;
}

static int rename_over_store() {
  const int fd = open(InScratch("fresh"), O_CREAT | O_WRONLY, 0600);
  if (fd < 0) return Held(errno);
  close(fd);
  return Judge(rename(InScratch("fresh"), STORE));
}

static int read_by_symlink() {
  if (symlink(STORE, InScratch("link")) != 0) return Held(errno);
  return ReadFile(InScratch("link"));
}

// A folder that nobody without privileges can remove must not keep the next worker from starting.
static int locked_folder_in_scratch() {
  if (syscall(SYS_mkdirat, AT_FDCWD, InScratch("locked"), 0700) != 0) return Held(errno);
  char inner[4400];
  snprintf(inner, sizeof(inner), "%s/inner", InScratch("locked"));
  syscall(SYS_mkdirat, AT_FDCWD, inner, 0700);
  syscall(SYS_fchmodat, AT_FDCWD, InScratch("locked"), 0);
  return kAttempted;
}

static int read_store() { return ReadFile(STORE); }
static int read_key() { return ReadFile(STATE "/tls.key"); }
static int read_key_outside() { return ReadFile(OUTSIDE "/tls.key"); }
static int read_compile_scratch() {
  return ReadFile(STATE "/scratch/tune-compile-cpu/9/victim.cu");
}
static int list_compile_scratch() { return ListFolder(STATE "/scratch/tune-compile-cpu"); }
static int list_compile_cache() { return ListFolder(STATE "/compile-cache"); }
static int list_state() { return ListFolder(STATE); }
static int list_root() { return ListFolder("/"); }
static int list_tmp() { return ListFolder("/tmp"); }
static int read_shadow() { return ReadFile("/etc/shadow"); }
static int read_passwd() { return ReadFile("/etc/passwd"); }
static int read_home() { return ReadFile(HOME_DIR "/.netrc"); }
static int read_by_root_link() { return ReadFile("/proc/self/root" STATE "/tls.key"); }
static int read_block_device() {
  return ListFolder("/dev/disk") == kThrough ? kThrough : ReadFile("/dev/mem");
}
static int read_kernel_log() { return Judge(syscall(SYS_syslog, 3, malloc(4096), 4096)); }
static int open_terminal() { return Judge(open("/dev/tty", O_RDWR)); }

static int read_by_handle() {
  static struct {
    unsigned size;
    int type;
    unsigned char bytes[128];
  } handle = {128, 0, {}};
  int mount = 0;
  if (syscall(SYS_name_to_handle_at, AT_FDCWD, STORE, &handle, &mount, 0) != 0) return Held(errno);
  const int folder = open("/usr", O_RDONLY);
  const long fd = syscall(SYS_open_by_handle_at, folder, &handle, O_RDONLY);
  return Judge(fd);
}

// Counts descriptors open here besides the input, the output, the socket and memory.
static int leaked_descriptors() {
  for (int fd = 0; fd < 1024; ++fd) {
    char path[64], target[256];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const long size = readlink(path, target, sizeof(target) - 1);
    if (size <= 0) continue;
    target[size] = 0;
    bool known = strcmp(target, "/dev/null") == 0;
    for (const char* kind : {"pipe:", "socket:", "/memfd:", "anon_inode:"}) {
      known = known || strncmp(target, kind, strlen(kind)) == 0;
    }
    if (!known) return kThrough;
  }
  return Held(ENOENT);
}

// Its own folder in /proc has more of the host than of itself.
static int read_own_environment() { return ReadFile("/proc/self/environ"); }
static int list_own_files() { return ListFolder("/proc/self/fd"); }
static int read_connections() { return ReadFile("/proc/self/net/tcp"); }
static int read_mounts() { return ReadFile("/proc/self/mountinfo"); }

static int push_into_terminal() {
  char letter = '\n';
  for (int fd = 0; fd < 3; ++fd) {
    if (syscall(SYS_ioctl, fd, 0x5412, &letter) == 0) return kThrough;  // TIOCSTI
  }
  return Held(errno);
}

#define ACTS                                                                                       \
  truncate_store, unlink_store, unlink_wal, rename_store, rename_state, chmod_store, chmod_state,  \
      chmod_state_2, chown_state, set_times, set_attribute, remove_attribute, make_folder,         \
      make_fifo, link_store_here, symlink_in_state, write_store, open_truncating, create_in_state, \
      create_outside, create_in_tmp, unnamed_file, change_root, mount_over_state,                  \
      move_out_of_mounts, new_mount_api, clone_mount, take_lock, watch_state, watch_everything,    \
      ftruncate_store, fchmod_by_path_only, rename_over_store, read_by_symlink,                    \
      locked_folder_in_scratch, read_store, read_key, read_key_outside, read_compile_scratch,      \
      list_compile_scratch, list_compile_cache, list_state, list_root, list_tmp, read_shadow,      \
      read_passwd, read_home, read_by_root_link, read_block_device, read_kernel_log,               \
      open_terminal, read_by_handle, leaked_descriptors, push_into_terminal, read_own_environment, \
      list_own_files, read_connections, read_mounts

#include "entry.h"
