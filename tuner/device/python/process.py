# SPDX-License-Identifier: Apache-2.0
"""The first half of every worker in Python: a process that has imported a library and forks children that answer.

The parent never reads a request. It waits until one can be read and forks; the child reads it, so that a child
knows nothing of requests before its own. Each child is in a Landlock domain of its own, which keeps it from the
memory, files and pipes of its parent and of the worker, and closes the pipe of requests before it runs code
that was sent. The second half, which follows in the same text, defines what a request does.

A frame is 4 bytes of length, little endian, and as many bytes. A request is one frame of JSON with a nonce. A
child that has read it sends a frame with the nonce, and then the reply: one frame of JSON, which has the nonce
too, and one of the text or binary that was made. When a child has ended, the parent says so in a frame on a
pipe that no child has.
"""
import ctypes
import json
import mmap
import os
import resource
import select
import shutil
import struct
import sys
import traceback

FRAME_BYTES_MAX = 40 << 20
LOG_BYTES_MAX = 64 << 10
CPU_SECONDS = 301  # of one request, in a child that answers many
GROWTH_BYTES_MAX = 256 << 20  # of a child, before it is too large for another request

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_CREATE_RULESET_VERSION, LANDLOCK_RULE_PATH_BENEATH = 1, 1
LANDLOCK_REMOVE_DIR, LANDLOCK_REMOVE_FILE, LANDLOCK_REFER = 1 << 4, 1 << 5, 1 << 13
LANDLOCK_SCOPES = 3  # abstract sockets and signals: Linux 6.12
LIBC = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """What is wrong with a request, in words for people. `outcome` as tune::Outcome calls it."""

    def __init__(self, message, outcome="compile_failed"):
        super().__init__(message)
        self.outcome = outcome


# ---- Frames -------------------------------------------------------------------------------------


def read_exactly(fd, size):
    parts = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_frame(fd):
    (size,) = struct.unpack("<I", read_exactly(fd, 4))
    if size > FRAME_BYTES_MAX:
        raise EOFError
    return read_exactly(fd, size)


def write_frame(fd, payload):
    data = memoryview(struct.pack("<I", len(payload)) + payload)
    while data:
        data = data[os.write(fd, data):]


# ---- Walls --------------------------------------------------------------------------------------


def landlock(number, *arguments):
    """One of its system calls, for which the C library has no functions."""
    result = LIBC.syscall(ctypes.c_long(number), *(each if isinstance(each, bytes) else ctypes.c_long(each or 0)
                                                   for each in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "no Landlock domain for a request")
    return result


def protect_parent():
    """Nobody without privileges traces this process or opens what it has open, and what its children leave
    running comes to it."""
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def isolate(folder, runs_source):
    """Enters a Landlock domain within the worker's: from here on this process cannot trace, signal or open the
    memory and pipes of any process outside of it. A source may make files, but neither remove nor rename them,
    so that all it holds of the disk is seen in its folder."""
    try:
        version = landlock(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    except OSError:
        return  # the daemon knows that the worker has no Landlock, and its operator allows that
    removing = LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE
    rights = removing | (LANDLOCK_REFER if version >= 2 else 0)  # moving between folders
    attributes = struct.pack("<QQQ", rights, 0, LANDLOCK_SCOPES) if version >= 6 else struct.pack("<Q", rights)
    ruleset = landlock(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if not runs_source:
        place = os.open(folder, os.O_PATH)
        landlock(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, struct.pack("<Qi", rights, place), 0)
        os.close(place)
    landlock(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def attempts(folder, worker):
    """(what a source could do, how it would do it): each must fail with OSError."""
    parent = os.getppid()
    for whose, pid in (("its parent's", parent), ("the worker's", worker)):
        proc = f"/proc/{pid}"
        yield f"list {whose} files", lambda proc=proc: os.listdir(f"{proc}/fd")
        yield f"open {whose} pipes", lambda proc=proc: open_any(f"{proc}/fd")
        yield f"open {whose} pipes by its thread", lambda proc=proc, pid=pid: open_any(f"{proc}/task/{pid}/fd")
        yield f"read {whose} memory", lambda proc=proc: os.open(f"{proc}/mem", os.O_RDONLY)
        yield f"write {whose} memory", lambda proc=proc: os.open(f"{proc}/mem", os.O_WRONLY)
        yield f"read {whose} environment", lambda proc=proc: os.open(f"{proc}/environ", os.O_RDONLY)
        yield f"read {whose} mappings", lambda proc=proc: os.open(f"{proc}/maps", os.O_RDONLY)
        yield f"signal {whose} process", lambda pid=pid: os.kill(pid, 0)
    yield "list its own files", lambda: os.listdir("/proc/self/fd")
    yield "read its own environment", lambda: os.open("/proc/self/environ", os.O_RDONLY)
    yield "read the host's connections", lambda: os.open("/proc/self/net/tcp", os.O_RDONLY)
    yield "read the host's mounts", lambda: os.open("/proc/self/mountinfo", os.O_RDONLY)
    yield "make memory files", lambda: os.memfd_create("attempt")
    yield "share memory", lambda: mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    yield "take disk at once", lambda: reserve(os.path.join(folder, "attempt"))
    yield "have files without a name", lambda: os.open(folder, os.O_TMPFILE | os.O_WRONLY)
    yield "remove files", lambda: os.remove(os.path.join(folder, "log"))


def open_any(folder):
    """Opens one of the first files of a process; OSError if none can be."""
    for number in range(32):
        for mode in (os.O_RDONLY, os.O_WRONLY):
            try:
                return os.close(os.open(f"{folder}/{number}", mode | os.O_NONBLOCK))
            except OSError:
                pass
    raise PermissionError(folder)


def reserve(path):
    """By the call itself: the C library would write zeros where it is refused."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        if LIBC.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(1 << 20)) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")
    finally:
        os.close(fd)


def try_walls(folder, worker):
    """Which of the attempts succeed, in words."""
    through = []
    for what, act in attempts(folder, worker):
        try:
            act()
        except OSError:
            continue
        through.append(what)
    return through


# ---- Requests -----------------------------------------------------------------------------------


def read_log(folder):
    try:
        with open(os.path.join(folder, "log"), "rb") as file:
            return file.read(LOG_BYTES_MAX).decode(errors="replace").strip()
    except OSError:
        return ""


def answer(handle, request, folder, library):
    """(reply, what was made)."""
    try:
        if "try_walls" in request:
            reply, made = {"through": try_walls(folder, request["try_walls"])}, b""
        else:
            reply, made = handle(request, folder, library)
        reply["outcome"] = "ok"
    except Refused as refused:
        reply, made = {"outcome": refused.outcome, "message": str(refused)}, b""
    sys.stdout.flush()
    sys.stderr.flush()
    reply["log"] = read_log(folder)
    return reply, made


def most_resident_bytes():
    """Of this process since its fork. The walls hide what /proc would tell."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def limit_cpu_seconds():
    """One request's own, where there is a limit: what others have used of this process does not count against it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft == resource.RLIM_INFINITY:
        return
    use = resource.getrusage(resource.RUSAGE_SELF)
    wanted = int(use.ru_utime + use.ru_stime) + CPU_SECONDS
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    except (OSError, ValueError):
        pass  # the limit that there is stays


def empty(folder):
    """Keeps the folder itself, which a child may not remove."""
    os.makedirs(folder, exist_ok=True)
    for entry in list(os.scandir(folder)):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.remove(entry.path)


def keep_log(folder):
    """What others' code prints goes to a file."""
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def answer_requests(handle, requests, replies, folder, library, count):
    """In the child: the requests up to the end of them, to a failure, or to `count`."""
    resident_bytes = most_resident_bytes()
    for left in reversed(range(count)):
        try:
            request = json.loads(read_frame(requests))
        except EOFError:
            return
        write_frame(replies, request["nonce"].encode())
        empty(folder)
        if left == count - 1:
            isolate(folder, runs_source=count == 1)
        if left == 0:
            os.close(requests)
        limit_cpu_seconds()
        keep_log(folder)
        reply, made = answer(handle, request, folder, library)
        is_spent = most_resident_bytes() - resident_bytes > GROWTH_BYTES_MAX
        reply["is_last"] = left == 0 or is_spent or reply["outcome"] != "ok"
        reply["nonce"] = request["nonce"]
        write_frame(replies, json.dumps(reply).encode())
        write_frame(replies, made)
        if reply["is_last"]:
            return


def has_descendants():
    """Does anything run that a child has left?"""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        return True
    except ChildProcessError:
        return False


def announce(ready, pipes):
    """The first reply, to no request: whether there will be others."""
    write_frame(pipes[1], json.dumps(ready).encode())
    write_frame(pipes[1], b"")


def serve(handle, pipes, folder, library, per_child=1):
    """Forks a child for each request until there are no more; for `per_child` requests where none runs code that
    was sent."""
    requests, replies, ended = pipes
    waiting = select.poll()
    waiting.register(requests, select.POLLIN)
    while waiting.poll()[0][1] & select.POLLIN:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(ended)
                answer_requests(handle, requests, replies, folder, library, per_child)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        try:
            write_frame(ended, json.dumps({"how": how, "left": has_descendants(), "log": read_log(folder)}).encode())
        except OSError:
            return  # the worker is gone
