// SPDX-License-Identifier: Apache-2.0
// The network, the host's other services, and the rarer doors into the kernel.
#include "attack.h"

struct Inet {
  unsigned short family = 2;
  unsigned short port = __builtin_bswap16(LISTENER);
  unsigned address = 0x0100007f;
  char zero[8] = {};
};
struct Local {
  unsigned short family = 1;
  char path[108] = {};
};

static long Socket(long family, long type, long protocol) {
  return syscall(SYS_socket, family, type, protocol);
}
static int open_tcp() { return Judge(Socket(2, 1, 0)); }
static int open_udp() { return Judge(Socket(2, 2, 0)); }
static int open_tcp6() { return Judge(Socket(10, 1, 0)); }
static int open_local() { return Judge(Socket(1, 1, 0)); }
static int open_netlink() { return Judge(Socket(16, 3, 0)); }
static int open_raw() { return Judge(Socket(2, 3, 1)); }
static int open_packet() { return Judge(Socket(17, 3, 0)); }
static int open_vsock() { return Judge(Socket(40, 1, 0)); }
static int open_alg() { return Judge(Socket(38, 5, 0)); }

static int connect_to_listener() {
  const long fd = Socket(2, 1, 0);
  const Inet address;
  return fd < 0 ? Held(errno) : Judge(syscall(SYS_connect, fd, &address, 16));
}
static int connect_to_daemon() {
  const long fd = Socket(1, 1, 0);
  Local address;
  strncpy(address.path, SOCKET, sizeof(address.path) - 1);
  return fd < 0 ? Held(errno) : Judge(syscall(SYS_connect, fd, &address, sizeof(address)));
}
// Acts on the socket that is open already: a datagram elsewhere, another peer, a name of its own.
static int reconnect_own_socket() {
  Local address;
  strncpy(address.path, SOCKET, sizeof(address.path) - 1);
  return Judge(syscall(SYS_connect, 3, &address, sizeof(address)));
}
static int name_own_socket() {
  Local address;
  strncpy(address.path + 1, "hostile" NONCE, sizeof(address.path) - 2);
  return Judge(syscall(SYS_bind, 3, &address, 32));
}
static int listen_on_own_socket() { return Judge(syscall(SYS_listen, 3, 1)); }
static int pair_of_sockets() {
  int ends[2];
  if (syscall(SYS_socketpair, 1, 1, 0, ends) != 0) return Held(errno);
  // Harmless, but for another one's descriptors.
  return kAttempted;
}
static int io_ring() {
  static char parameters[256];
  return Judge(syscall(425, 4, parameters));
}
static int io_ring_enter() { return Judge(syscall(426, 3, 1, 0, 0, 0)); }
static int aio() {
  unsigned long context = 0;
  return Judge(syscall(SYS_io_setup, 16, &context));
}

static int load_bpf() {
  static char attributes[128];
  const long done = syscall(SYS_bpf, 0, attributes, sizeof(attributes));
  return done < 0 && errno != EINVAL ? Held(errno) : kThrough;
}
static int count_events() {
  static unsigned attributes[32] = {1, 128};
  return Judge(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
}
static int add_key() { return Judge(syscall(SYS_add_key, "user", "hostile", "x", 1, -2)); }
static int list_keys() { return Judge(syscall(SYS_keyctl, 0, -3, 0)); }
static int handle_faults() { return Judge(syscall(SYS_userfaultfd, 1)); }
static int new_personality() {
  const long before = syscall(SYS_personality, 0xffffffff);
  if (before < 0) return Held(errno);
  return Judge(syscall(SYS_personality, before | 0x0400000));  // READ_IMPLIES_EXEC
}
static int load_module() {
  const long done = syscall(SYS_finit_module, 0, "", 0);
  return done < 0 && errno != EBADF && errno != ENOEXEC && errno != EINVAL ? Held(errno) : kThrough;
}
static int load_kernel() {
  const long done = syscall(SYS_kexec_load, 0, 0, 0, 0xffff);
  return done < 0 && errno != EINVAL ? Held(errno) : kThrough;
}
static int set_clock() {
  timespec now;
  clock_gettime(0, &now);
  return Judge(syscall(SYS_clock_settime, 0, &now));
}
static int name_host() {
  char name[65] = {};
  gethostname(name, 64);
  return Judge(sethostname(name, strlen(name)));
}
static int quota() {
  const long done = syscall(SYS_quotactl, 0x800001 << 8, 0, 0, 0);  // sync
  return Judge(done);
}
static int accounting() {
  const long done = syscall(SYS_acct, "/nonexistent/" NONCE);
  return done < 0 && errno == ENOENT ? kThrough : Judge(done);
}
static int swap() {
  const long done = syscall(SYS_swapoff, "/nonexistent/" NONCE);
  return done < 0 && errno == ENOENT ? kThrough : Judge(done);
}
static int watch_processes() { return Judge(syscall(SYS_ptrace, 0, 0, 0, 0)); }  // traceme

#if defined(__x86_64__)
// socket(AF_INET, SOCK_STREAM, 0) by the instruction itself.
static int by_instruction() {
  const unsigned char code[] = {0xb8, 41, 0, 0, 0, 0xbf, 2,    0,    0,    0,
                                0xbe, 1,  0, 0, 0, 0x31, 0xd2, 0x0f, 0x05, 0xc3};
  const long got = RunBytes(code, sizeof(code));
  return got < 0 ? Held(static_cast<int>(-got)) : kThrough;
}
static int by_x32_numbers() {
  const long got = syscall(0x40000000 + SYS_getpid);
  return got == getpid() ? kThrough : Held(errno);
}
static int io_ports() { return Judge(syscall(SYS_iopl, 3)); }
static int change_descriptors() {
  static char table[256];
  return Judge(syscall(SYS_modify_ldt, 0, table, sizeof(table)));
}
#else
static int by_instruction() { return Held(ENOSYS); }
static int by_x32_numbers() { return Held(ENOSYS); }
static int io_ports() { return Held(ENOSYS); }
static int change_descriptors() { return Held(ENOSYS); }
#endif

#define ACTS                                                                                      \
  open_tcp, open_udp, open_tcp6, open_local, open_netlink, open_raw, open_packet, open_vsock,     \
      open_alg, connect_to_listener, connect_to_daemon, reconnect_own_socket, name_own_socket,    \
      listen_on_own_socket, pair_of_sockets, io_ring, io_ring_enter, aio, load_bpf, count_events, \
      add_key, list_keys, handle_faults, new_personality, load_module, load_kernel, set_clock,    \
      name_host, quota, accounting, swap, watch_processes, by_instruction, by_x32_numbers,        \
      io_ports, change_descriptors

#include "entry.h"
