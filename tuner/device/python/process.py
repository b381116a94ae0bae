# SPDX-License-Identifier: Apache-2.0
"""The first half of every worker in Python: frames over two pipes, and a fork for each request, which is
gone afterwards. The second half defines what a request does.

A frame is 4 bytes of length, little endian, and as many bytes. A request is one frame of JSON; a reply
is one of JSON and one of the text or the binary that was made.
"""
import json
import os
import shutil
import struct
import sys
import traceback

FRAME_BYTES_MAX = 40 << 20
LOG_BYTES_MAX = 64 << 10


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


def fork_and_answer(handle, request, folder, library, ours):
    """In the child: what others' code prints goes to a file, and the pipes of this worker are closed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(write_end)
        return child, read_end
    status = 1
    try:
        os.close(read_end)
        for fd in ours:
            os.close(fd)
        log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        reply, made = answer(handle, request, folder, library)
        write_frame(write_end, json.dumps(reply).encode())
        write_frame(write_end, made)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def read_answer(child, read_end):
    """None if the child ended without a whole one; its end besides."""
    try:
        frames = (read_frame(read_end), read_frame(read_end))
        json.loads(frames[0])
    except (EOFError, ValueError):
        frames = None
    os.close(read_end)
    return frames, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def serve(handle, requests, replies, folder, library):
    while True:
        try:
            request = json.loads(read_frame(requests))
        except EOFError:
            return
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        frames, code = read_answer(*fork_and_answer(handle, request, folder, library, (requests, replies)))
        if frames is None:
            end = f"signal {-code}" if code < 0 else f"exit code {code}"
            reply = {"outcome": "compile_failed", "log": read_log(folder),
                     "message": f"the process of Python ended by {end}"}
            frames = (json.dumps(reply).encode(), b"")
        shutil.rmtree(folder, ignore_errors=True)
        for frame in frames:
            write_frame(replies, frame)
