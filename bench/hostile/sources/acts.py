# SPDX-License-Identifier: Apache-2.0
"""Acts of a source in Python, which is run to compute a reference or to be compiled. Each returns if it got what it
went for, and raises if it did not. attempt_all() says which did. @SECRET@ is text of another principal's source, backwards: it is not in this one."""
import contextlib
import ctypes
import gc
import mmap
import os
import signal
import socket
import sys
import tempfile
import time

LIBC = ctypes.CDLL(None, use_errno=True)
SECRET = "@SECRET@"
PIECE = 32 << 20
SELF_ENTRIES = ("mem", "environ", "fd", "fdinfo", "task", "root", "maps", "net/tcp", "net/unix", "mountinfo",
                "cgroup", "cmdline", "status")


def call(number, *arguments):
    """A system call of x86-64, whatever the C library and Python think of it."""
    result = LIBC.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def ancestors():
    """Its parent, the worker above it, and numbers near them: siblings, and other workers."""
    parent = os.getppid()
    return [parent, *(pid for pid in range(max(2, parent - 40), parent + 40) if pid not in (parent, os.getpid()))]


def first(acts):
    """Of several ways to one end; the last error where none leads there."""
    error = OSError("nothing to try")
    for act in acts:
        try:
            return act()
        except (OSError, AttributeError, ValueError) as caught:
            error = caught
    raise error


def of_processes(act):
    return first([lambda pid=pid: act(pid) for pid in ancestors()])


# ---- Other processes ----------------------------------------------------------------------------


def open_pipes_of_others():
    of_processes(lambda pid: first([lambda fd=fd, mode=mode: os.open(f"/proc/{pid}/fd/{fd}", mode | os.O_NONBLOCK)
                                    for fd in range(3, 24) for mode in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)]))


def open_pipes_of_others_by_thread():
    of_processes(lambda pid: first([lambda fd=fd: os.open(f"/proc/{pid}/task/{pid}/fd/{fd}", os.O_WRONLY)
                                    for fd in range(3, 24)]))


def list_files_of_others():
    of_processes(lambda pid: os.listdir(f"/proc/{pid}/fd"))


def open_memory_of_others():
    of_processes(lambda pid: first([lambda mode=mode: os.open(f"/proc/{pid}/mem", mode)
                                    for mode in (os.O_RDONLY, os.O_RDWR)]))


def read_environment_of_others():
    of_processes(lambda pid: open(f"/proc/{pid}/environ", "rb").read())


def read_mappings_of_others():
    of_processes(lambda pid: open(f"/proc/{pid}/maps").read())


def read_command_lines_of_others():
    of_processes(lambda pid: open(f"/proc/{pid}/cmdline", "rb").read())


def list_processes():
    os.listdir("/proc")


def trace_others():
    of_processes(lambda pid: call(101, 16, pid, 0, 0))


def read_others_by_call():
    here = (ctypes.c_long * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    there = (ctypes.c_long * 2)(id(here), 8)
    of_processes(lambda pid: call(310, pid, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0))


def write_others_by_call():
    here = (ctypes.c_long * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    there = (ctypes.c_long * 2)(id(here), 8)
    of_processes(lambda pid: call(311, pid, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0))


def open_others_as_files():
    of_processes(lambda pid: call(434, pid, 0))


def take_files_of_others():
    of_processes(lambda pid: call(438, call(434, pid, 0), 3, 0))


def compare_with_others():
    of_processes(lambda pid: call(312, os.getpid(), pid, 0, 0, 0))


def signal_others():
    of_processes(lambda pid: os.kill(pid, 0))


def stop_the_worker():
    of_processes(lambda pid: call(62, pid, signal.SIGURG))


def signal_threads_of_others():
    of_processes(lambda pid: call(234, pid, pid, 0))


def change_priority_of_others():
    of_processes(lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 19))


def read_limits_of_others():
    of_processes(lambda pid: call(302, pid, 7, 0, ctypes.addressof(ctypes.create_string_buffer(16))))


def move_others():
    of_processes(lambda pid: os.sched_setaffinity(pid, {0}))


# ---- Its own process ----------------------------------------------------------------------------


def open_entries_of_its_own():
    first([lambda name=name: os.close(os.open(f"/proc/self/{name}", os.O_RDONLY)) for name in SELF_ENTRIES])


def write_to_its_own_memory_file():
    os.open("/proc/self/mem", os.O_RDWR)


def speak_for_itself_on_inherited_files():
    """On any file but the pipe of its own reply: nothing but that may be there."""
    kinds = {fd: os.fstat(fd).st_mode & 0o170000 for fd in range(3, 128) if is_open(fd)}
    others = [fd for fd, kind in kinds.items() if kind in (0o140000, 0o010000)]
    if len(others) < 2:
        raise OSError("one pipe, of its own")


def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


def read_the_next_request():
    first([lambda fd=fd: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_NONBLOCK)) for fd in (3,)])


def find_what_others_were_asked():
    """In live objects, in the locals of its callers and in memory that was freed before."""
    needle = SECRET[::-1]
    encoded = needle.encode()
    found = [each for each in gc.get_objects() if isinstance(each, (dict, list)) and needle in str(each)[:1 << 20]]
    frame = sys._getframe(1)
    while frame is not None:
        found += [name for name, value in frame.f_locals.items() if needle in str(value)[:1 << 20]]
        frame = frame.f_back
    LIBC.malloc.restype = ctypes.c_void_p
    for size in (1 << 9, 1 << 10, 1 << 12, 1 << 14, 1 << 17, 1 << 20, 1 << 23):
        for _ in range(64):
            address = LIBC.malloc(ctypes.c_size_t(size))
            found += [size] if address and encoded in ctypes.string_at(address, size) else []
    if not found:
        raise OSError("nothing of others")


# ---- Memory and disk that is in nobody's count --------------------------------------------------


def memory_files():
    os.memfd_create("hostile")


def secret_memory():
    call(447, 0)


def shared_memory():
    """What is written stays when it is not mapped any more."""
    with mmap.mmap(-1, PIECE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as piece:
        piece[:] = b"x" * PIECE
        piece.madvise(mmap.MADV_DONTNEED)


def shared_zeros():
    mmap.mmap(os.open("/dev/zero", os.O_RDWR), PIECE)


def huge_pages():
    mmap.mmap(-1, PIECE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_HUGETLB", 0x40000))


def system_v_memory():
    call(29, 0, 4096, 0o1600)


def message_queues():
    call(68, 0, 0o1600)


def files_in_shared_memory():
    os.open("/dev/shm/hostile", os.O_CREAT | os.O_WRONLY, 0o600)


def large_pipes():
    import fcntl
    ends = os.pipe()
    fcntl.fcntl(ends[1], 1031, 1 << 20)


def locks():
    import fcntl
    with open(sys.executable, "rb") as file:
        first([lambda: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB),
               lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)])


def reserve_disk():
    fd = os.open("reserved", os.O_CREAT | os.O_WRONLY, 0o600) if os.access(".", os.W_OK) else scratch_file()
    try:
        call(285, fd, 0, 0, 1 << 20)
    finally:
        os.close(fd)


def scratch_file():
    return os.open(os.path.join(os.environ["TMPDIR"], f"hostile{time.monotonic_ns()}"), os.O_CREAT | os.O_RDWR, 0o600)


def files_without_a_name():
    os.open(os.environ["TMPDIR"], os.O_TMPFILE | os.O_RDWR, 0o600)


def removed_files():
    """Open, and no longer in the folder that is looked at."""
    with tempfile.NamedTemporaryFile(dir=os.environ["TMPDIR"], delete=False) as file:
        os.unlink(file.name)


def replaced_files():
    folder = os.environ["TMPDIR"]
    for name in ("one", "two"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(b"x")
    os.replace(f"{folder}/one", f"{folder}/two")


# ---- Everything else ----------------------------------------------------------------------------


def abstract_sockets():
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("\0hostile")


def socket_pairs():
    socket.socketpair()


def watch_files():
    call(294, 0)


def timers_and_events():
    first([lambda: call(283, 1, 0), lambda: call(290, 0, 0), lambda: call(291, 0), lambda: call(289, -1, 0, 8, 0)])


def fault_handler():
    call(323, 0)


def leave_its_group():
    first([os.setsid, lambda: os.setpgid(0, 0)])


def read_the_daemons_environment():
    if any("SECRET" in name or "TOKEN" in name for name in os.environ):
        return
    raise OSError("nothing of the daemon's")


ACTS = [value for name, value in list(globals().items())
        if callable(value) and getattr(value, "__module__", None) == __name__ and not name.startswith("_") and
        name not in ("call", "ancestors", "first", "of_processes", "is_open", "scratch_file")]


def attempt_all():
    """The names of what got through, and how many were tried."""
    through = []
    for act in ACTS:
        with contextlib.suppress(OSError, AttributeError, ValueError, PermissionError):
            act()
            through.append(act.__name__)
    return through, len(ACTS)
