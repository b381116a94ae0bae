# SPDX-License-Identifier: Apache-2.0
"""A source that changes all it can reach for whoever comes after it in its process, or in one forked of it."""
import atexit
import builtins
import gc
import json
import os
import signal
import sys
import threading
import time


def lie(*arguments, **options):
    return b"\0" * 8


def junk():
    """To every file that is open, also behind its own reply."""
    for fd in range(3, 64):
        for payload in (b"\x02\0\0\0{}" * 4, b"\xff" * 64):
            try:
                os.write(fd, payload)
            except OSError:
                break


def linger():
    """Outlives its reply, and speaks then."""
    if os.fork() == 0:
        time.sleep(1)
        junk()
        os._exit(0)


def stay():
    for module in list(sys.modules.values()):
        for name in ("loads", "dumps", "fromfile", "asarray", "ascontiguousarray", "write_frame", "read_frame", "fork"):
            if hasattr(module, name):
                try:
                    setattr(module, name, lie)
                except (AttributeError, TypeError):
                    pass
    builtins.open = lie
    builtins.compile = lie
    json.loads = lie
    gc.callbacks.append(lambda *_: junk())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
        signal.signal(number, lambda *_: None)
    atexit.register(junk)
    os.environ["PYTHONPATH"] = os.environ.get("TMPDIR", ".")
    threading.Thread(target=lambda: (time.sleep(0.5), junk()), daemon=True).start()
