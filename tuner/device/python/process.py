# SPDX-License-Identifier: Apache-2.0
"""The first half of every worker in Python: frames over two pipes, and forks that answer. Where requests run
code that was sent, each has a fork of its own, which is gone afterwards. The second half defines what a request does.

A frame is 4 bytes of length, little endian, and as many bytes. A request is one frame of JSON; a reply
is one of JSON and one of the text or the binary that was made.
"""
import json
import os
import resource
import shutil
import struct
import sys
import traceback

FRAME_BYTES_MAX = 40 << 20
LOG_BYTES_MAX = 64 << 10
CPU_SECONDS = 301  # of one request, in a fork that answers many
GROWTH_BYTES_MAX = 256 << 20  # of a fork, before it is too large for another request


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
        reply, made = handle(request, folder, library)
        reply["outcome"] = "ok"
    except Refused as refused:
        reply, made = {"outcome": refused.outcome, "message": str(refused)}, b""
    sys.stdout.flush()
    sys.stderr.flush()
    reply["log"] = read_log(folder)
    return reply, made


class Fork:
    """A child that answers requests, one after the other. It has none of this process's files."""

    def __init__(self, handle, folder, library, ours):
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        self._child = os.fork()
        if self._child:
            self.answered = 0
            os.close(requests)
            os.close(replies)
            return
        status = 1
        try:
            for fd in (self._requests, self._replies, *ours):
                os.close(fd)
            resident_bytes = most_resident_bytes()
            while serve_one(handle, folder, library, requests, replies, resident_bytes):
                pass
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def ask(self, request):
        """The reply's two frames; None if the child ended without."""
        try:
            write_frame(self._requests, request)
            frames = (read_frame(self._replies), read_frame(self._replies))
            json.loads(frames[0])
        except (OSError, EOFError, ValueError):
            return None
        self.answered += 1
        return frames

    def end(self):
        """Waits for the child; how it ended, in words."""
        os.close(self._requests)
        os.close(self._replies)
        code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        return f"signal {-code}" if code < 0 else f"exit code {code}"


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


def serve_one(handle, folder, library, requests, replies, resident_bytes):
    """In the child: what others' code prints goes to a file. False at the end of the requests."""
    try:
        request = json.loads(read_frame(requests))
    except EOFError:
        return False
    limit_cpu_seconds()
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    reply, made = answer(handle, request, folder, library)
    reply["is_spent"] = most_resident_bytes() - resident_bytes > GROWTH_BYTES_MAX
    write_frame(replies, json.dumps(reply).encode())
    write_frame(replies, made)
    return True


def empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def is_ok(reply):
    return isinstance(reply, dict) and reply.get("outcome") == "ok"


def serve(handle, requests, replies, folder, library, per_fork=1):
    """Answers until the requests end, `per_fork` of them in one child: more than one only where no request runs
    code that was sent. A child that another request has used before is believed only what it has made: it may
    have died, or failed, of what is left of the others, so that a fresh one is asked again."""
    fork = None
    while True:
        try:
            request = read_frame(requests)
        except EOFError:
            return
        frames = None
        while frames is None:
            empty(folder)
            fork = fork or Fork(handle, folder, library, (requests, replies))
            is_fresh = fork.answered == 0
            frames = fork.ask(request)
            reply = json.loads(frames[0]) if frames else None
            if is_ok(reply) and fork.answered < per_fork and not reply.get("is_spent"):
                break
            end, fork = fork.end(), None
            if frames is None and is_fresh:
                reply = {"outcome": "compile_failed", "log": read_log(folder),
                         "message": f"the process of Python ended by {end}"}
                frames = (json.dumps(reply).encode(), b"")
            elif not is_fresh and not is_ok(reply):
                frames = None
        shutil.rmtree(folder, ignore_errors=True)
        for frame in frames:
            write_frame(replies, frame)
