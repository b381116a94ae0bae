// SPDX-License-Identifier: Apache-2.0
// More memory, disk and descriptors than a variant has a use for. Every act stops at BOMB_BYTES.
#include "attack.h"

constexpr unsigned long long kPiece = 64ULL << 20;
constexpr int kFilesMax = 100000;

static char* Map(unsigned long long bytes) {
  const long at = syscall(SYS_mmap, 0, bytes, 3, 0x22, -1, 0);
  return at == -1 ? nullptr : reinterpret_cast<char*>(at);
}

static int touch_memory() {
  for (unsigned long long held = 0; held < BOMB_BYTES; held += kPiece) {
    char* piece = Map(kPiece);
    if (piece == nullptr) return Held(errno);
    for (unsigned long long at = 0; at < kPiece; at += 4096) piece[at] = 1;
  }
  return kThrough;
}
static int touch_heap() {
  for (unsigned long long held = 0; held < BOMB_BYTES; held += 1 << 20) {
    char* piece = static_cast<char*>(malloc(1 << 20));
    if (piece == nullptr) return Held(errno);
    memset(piece, 1, 1 << 20);
  }
  return kThrough;
}

// Written to, not mapped: such memory is in no process's resident set.
static int Fill(int fd, unsigned long long bytes) {
  if (fd < 0) return Held(errno);
  static char piece[1 << 20];
  memset(piece, 1, sizeof(piece));
  signal(SIGXFSZ, IGNORED);
  for (unsigned long long held = 0; held < bytes; held += sizeof(piece)) {
    if (write(fd, piece, sizeof(piece)) <= 0) return Held(errno);
  }
  return kThrough;
}
static int fill_memory_file() {
  return Fill(static_cast<int>(syscall(SYS_memfd_create, "hostile", 0)), BOMB_BYTES);
}
// Each below the limit of a file.
static int fill_memory_files() {
  for (unsigned long long held = 0; held < BOMB_BYTES; held += 32ULL << 20) {
    const int verdict =
        Fill(static_cast<int>(syscall(SYS_memfd_create, "hostile", 0)), 32ULL << 20);
    if (verdict != kThrough) return verdict;
  }
  return kThrough;
}
static int fill_shared_memory() {
  return Fill(open("/dev/shm/hostile" NONCE, O_CREAT | O_RDWR, 0600), 64ULL << 20);
}
// It outlives its maker: one page tells as much as a bomb.
static int make_system_v_memory() {
  const long id = syscall(SYS_shmget, 0, 4096, 01600);
  if (id < 0) return Held(errno);
  syscall(SYS_shmctl, id, 0, 0);  // remove
  return kThrough;
}
static int make_message_queue() {
  const long id = syscall(SYS_msgget, 0, 01600);
  if (id < 0) return Held(errno);
  syscall(SYS_msgctl, id, 0, 0);
  return kThrough;
}
static int make_semaphores() {
  const long id = syscall(SYS_semget, 0, 1, 01600);
  if (id < 0) return Held(errno);
  syscall(SYS_semctl, id, 0, 0);
  return kThrough;
}
static int make_named_queue() {
  const long fd = syscall(SYS_mq_open, "hostile" NONCE, O_CREAT | O_RDWR, 0600, 0);
  if (fd < 0) return Held(errno);
  syscall(SYS_mq_unlink, "hostile" NONCE);
  return kThrough;
}
// A pipe holds a megabyte that belongs to no process.
static int fill_pipes() {
  static char piece[1 << 20];
  unsigned long long held = 0;
  while (held < (1ULL << 30)) {
    int ends[2];
    if (pipe(ends) != 0) return Held(errno);
    fcntl(ends[1], 1031, 1 << 20);  // F_SETPIPE_SZ
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const long wrote = write(ends[1], piece, sizeof(piece));
    if (wrote <= 0) return Held(errno);
    held += static_cast<unsigned long long>(wrote);
  }
  return kThrough;
}
// Written to and not mapped any more: it stays, in no resident set.
static int ShareMemory(int flags) {
  for (unsigned long long held = 0; held < BOMB_BYTES; held += kPiece) {
    const long at = syscall(SYS_mmap, 0, kPiece, 3, flags, -1, 0);
    if (at == -1) return Held(errno);
    memset(reinterpret_cast<char*>(at), 1, kPiece);
    syscall(SYS_madvise, at, kPiece, 4);  // MADV_DONTNEED
  }
  return kThrough;
}
static int share_memory() { return ShareMemory(0x21); }
static int share_memory_validated() { return ShareMemory(0x23); }
static int share_zeros() { return open("/dev/zero", O_RDWR) < 0 ? Held(errno) : kThrough; }
static int huge_pages() {
  return Judge(syscall(SYS_mmap, 0, 2 << 20, 3, 0x40022, -1, 0));
}
// The files that variants are loaded from: what they can hold has an end.
static int fill_loaded_files() {
  static char piece[1 << 20];
  unsigned long long held = 0;
  signal(SIGXFSZ, IGNORED);
  for (int fd = 4; fd < 128; ++fd) {  // not the socket
    lseek(fd, 0, 0);
    for (int i = 0; i < 128 && write(fd, piece, sizeof(piece)) > 0; ++i) held += 1 << 20;
  }
  return held < (2ULL << 30) ? Held(EPERM) : kThrough;
}
// A lock takes memory of the kernel's, and stops others.
static int lock_files() {
  const int fd = open("/etc/ld.so.cache", O_RDONLY);
  struct {
    short type, whence;
    long start, length;
    int pid;
  } lock = {};
  for (long i = 0; fd >= 0 && i < kFilesMax; ++i) {
    lock.start = 2 * i;
    lock.length = 1;
    if (syscall(SYS_fcntl, fd, 6, &lock) != 0) return Held(errno);  // F_SETLK
  }
  return fd < 0 ? Held(errno) : kThrough;
}
static int lock_memory() { return Judge(syscall(SYS_mlockall, 3)); }
static int secret_memory() { return Judge(syscall(447, 0)); }  // memfd_secret

static int fill_scratch() {
  return Fill(open(InScratch("big"), O_CREAT | O_WRONLY, 0600), BOMB_BYTES);
}
static int fill_scratch_by_pieces() {
  for (unsigned long long held = 0; held < BOMB_BYTES; held += 32ULL << 20) {
    char path[4400];
    snprintf(path, sizeof(path), "%s%llu", InScratch("part"), held >> 20);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    const int verdict = Fill(fd, 32ULL << 20);
    if (fd >= 0) close(fd);
    if (verdict != kThrough) return verdict;
  }
  return kThrough;
}
static int reserve_disk() {
  const int fd = open(InScratch("reserved"), O_CREAT | O_WRONLY, 0600);
  return fd < 0 ? Held(errno) : Judge(syscall(SYS_fallocate, fd, 0, 0, BOMB_BYTES));
}
static int many_files() {
  for (int i = 0; i < kFilesMax; ++i) {
    char path[4400];
    snprintf(path, sizeof(path), "%s%d", InScratch("file"), i);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd < 0) return Held(errno);
    close(fd);
  }
  return kThrough;
}

static int many_descriptors() {
  for (int i = 0; i < kFilesMax; ++i) {
    if (dup(0) < 0) return Held(errno);
  }
  return kThrough;
}
static int raise_limits() {
  unsigned long limit[2] = {1 << 20, 1 << 20};
  return Judge(syscall(SYS_prlimit64, 0, 7, limit, 0));
}
// Page tables for memory that is never written to.
static int spread_thin() {
  for (unsigned long long i = 0; i < 256; ++i) {
    const char* gigabyte = Map(1ULL << 30);
    if (gigabyte == nullptr) return Held(errno);
    volatile char seen = 0;
    for (unsigned long long at = 0; at < (1ULL << 30); at += 2ULL << 20) seen = gigabyte[at];
    (void)seen;
  }
  return kThrough;
}

#include "entry.h"
