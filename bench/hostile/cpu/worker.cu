// SPDX-License-Identifier: Apache-2.0
// The worker itself and the line between it and the daemon; bad endings; code that runs when a
// variant is loaded. An ended worker is replaced, a lie concerns the liar alone.
#include "attack.h"

static void Say(const void* bytes, unsigned long long size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const long sent = write(3, at, size);
    if (sent <= 0) return;
    at += sent;
    size -= static_cast<unsigned long long>(sent);
  }
}
static void SayLength(unsigned length) { Say(&length, 4); }

// A reply of `size` bytes in field `field`, all of them `pattern`.
static void SayReply(int field, unsigned size, const char* pattern, unsigned pattern_size) {
  static unsigned char piece[1 << 16];
  unsigned char head[6] = {static_cast<unsigned char>(field << 3 | 2)};
  unsigned head_size = 1;
  for (unsigned left = size; head_size == 1 || left > 0; left >>= 7) {
    head[head_size++] = static_cast<unsigned char>((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    if (left <= 0x7f) break;
  }
  SayLength(head_size + size);
  Say(head, head_size);
  for (unsigned i = 0; i < sizeof(piece); ++i)
    piece[i] = static_cast<unsigned char>(pattern[i % pattern_size]);
  for (unsigned sent = 0; sent < size; sent += sizeof(piece)) {
    Say(piece, size - sent < sizeof(piece) ? size - sent : sizeof(piece));
  }
}

// An ok run of one nanosecond a sample.
static int forge_reply() {
  unsigned char reply[4 + 2 + 2 + 2 + 80] = {86, 0, 0, 0, 0x42, 84, 0x08, 1, 0x1a, 80};
  const double sample_ns = 1;
  for (int i = 0; i < 10; ++i) memcpy(reply + 10 + 8 * i, &sample_ns, 8);
  Say(reply, sizeof(reply));
  return kAttempted;
}
static int forge_not_a_number() {
  unsigned char reply[4 + 2 + 2 + 2 + 8] = {14, 0, 0, 0, 0x42, 12, 0x08, 1, 0x1a, 8};
  const unsigned long long bits = 0x7ff8000000000000;
  memcpy(reply + 10, &bits, 8);
  Say(reply, sizeof(reply));
  return kAttempted;
}
static int forge_quarantine() {  // a status that is held against the device
  const unsigned char reply[] = {2, 0, 0, 0, 0x08, 9};
  Say(reply, sizeof(reply));
  return kAttempted;
}
static int forge_text() {  // bytes that are no text
  SayReply(2, 4096, "\xff\xfe\x80", 3);
  return kAttempted;
}
static int forge_long_text() {
  SayReply(2, 200u << 20, "x", 1);
  return kAttempted;
}
static int forge_many_messages() {  // two bytes each here, a hundred where they are taken apart
  SayReply(5, 16u << 20, "\x0a\x00", 2);
  return kAttempted;
}
static int forge_many_samples() {
  SayReply(8, 200u << 20, "\x19\x00\x00\x00\x00\x00\x00\xf0\x3f", 9);
  return kAttempted;
}
static int forge_garbage() {
  SayReply(15, 1u << 20, "\x0b", 1);
  return kAttempted;
}
static int announce_too_much() {
  SayLength(0xffffffff);
  return kAttempted;
}
static int announce_and_leave() {
  SayLength(200u << 20);
  _exit(0);
}
static int send_descriptors() {  // held open by whoever does not look
  struct {
    void* base;
    size_t size;
  } part = {const_cast<char*>("\0\0\0\0"), 4};
  struct {
    size_t size;
    int level, type;
    int fds[16];
  } control = {sizeof(control), 1, 1, {}};
  struct {
    void* name;
    unsigned name_size;
    void* parts;
    size_t count;
    void* control;
    size_t control_size;
    int flags;
  } message = {nullptr, 0, &part, 1, &control, sizeof(control), 0};
  return syscall(SYS_sendmsg, 3, &message, 0) < 0 ? Held(errno) : kAttempted;
}
static int close_everything() {
  for (int fd = 0; fd < 1024; ++fd) close(fd);
  return kAttempted;
}
static int flood_output() {
  static char text[1 << 16];
  memset(text, 'x', sizeof(text));
  for (int i = 0; i < 2048; ++i) {
    if (write(1 + i % 2, text, sizeof(text)) < 0) break;
  }
  return kAttempted;
}
static int color_last_words() {
  fprintf(stderr, "\033]0;hostile\007\033[2J\033[31mall is well\033[0m\r\n");
  abort();
}

static int leave_at_once() { _exit(0); }
static int leave_in_order() { exit(0); }
static int call_abort() { abort(); }
static int call_trap() { __builtin_trap(); }
static int write_to_nothing() {
  *reinterpret_cast<volatile int*>(8) = 1;
  return kAttempted;
}
static int write_everywhere() {  // over whatever lies behind a local variable
  volatile char here[16];
  for (long i = -(1 << 22); i < (1 << 22); ++i) here[i] = 1;
  return kAttempted;
}
static volatile int g_deep;
static int Deeper(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  g_deep = depth;
  return depth > 1 << 24 ? 0 : Deeper(depth + 1) + frame[0];
}
static int overflow_stack() { return Deeper(0) == 1 ? kAttempted : kAttempted; }
static int jump_wild() {
  reinterpret_cast<void (*)()>(0x123456789abcULL)();
  return kAttempted;
}
static int ignore_signals_and_crash() {
  for (int number = 1; number < 65; ++number) signal(number, IGNORED);
  *reinterpret_cast<volatile int*>(8) = 1;
  return kAttempted;
}
static void Again(int) { *reinterpret_cast<volatile int*>(8) = 1; }
static int crash_in_handlers() {
  for (int number = 1; number < 65; ++number) signal(number, &Again);
  Again(0);
  return kAttempted;
}

// Runs before the entry is called; the spec defines AT_LOAD for the acts that need it.
static int g_at_load;
#if AT_LOAD == 1
__attribute__((constructor)) static void AtLoad() {
  g_at_load = Judge(syscall(SYS_truncate, STORE, 0));
}
#endif
#if AT_LOAD == 2
static int Nothing() { return 0; }
static int (*volatile g_truncate)(const char*, long) = &truncate;  // calls are not bound by then
extern "C" {
__attribute__((used)) int (*Resolve())() {
  g_at_load = g_truncate(STORE, 0) == 0 ? kThrough : Held(EPERM);
  return &Nothing;
}
__attribute__((visibility("default"))) int resolved() __attribute__((ifunc("Resolve")));
}
#endif
static int constructor() { return g_at_load; }
static int resolver() {
#if AT_LOAD == 2
  resolved();
#endif
  return g_at_load;
}

#if defined(__x86_64__)
// getpid() of the 32-bit table, which has numbers of its own.
static int by_old_interrupt() {
  const unsigned char code[] = {0x53, 0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x5b, 0x48, 0x98, 0xc3};
  const long got = RunBytes(code, sizeof(code));
  return got == getpid() ? kThrough : Held(static_cast<int>(-got));
}
#else
static int by_old_interrupt() { return Held(ENOSYS); }
#endif

// Not bound to end within the test: it is cancelled, or its budget ends it.
static int spin() {
  for (int number = 1; number < 32; ++number) signal(number, IGNORED);
  const double end = NowSeconds() + 120;
  while (NowSeconds() < end) continue;
  return kAttempted;
}

// Left for the next kernel to find: a worker that ran this must not run another's.
static int mark_the_worker() {
  setenv("HOSTILE_WAS_HERE", "1", 1);
  return kAttempted;
}

#include "entry.h"
