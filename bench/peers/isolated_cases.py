# SPDX-License-Identifier: Apache-2.0
"""Measures cases one after the other in a process of its own, which may hang or die without ending the study.

What may do so runs under `trying(NAME)`. When that takes too long or ends the process, another process measures the
case again, and from then on `refused(NAME)` says why NAME is to be left out. Processes are forked: whoever calls
`measure_all` must not have used a GPU.
"""
import contextlib
import multiprocessing
import os

_FORK = multiprocessing.get_context("fork")
_pipe = None  # to the process that watches; None where nobody does
_refused = {}


def _say(*what):
    if _pipe is not None:
        _pipe.send(what)


@contextlib.contextmanager
def trying(name):
    """An exception that leaves it ends the process: it says that the GPU can no longer be used."""
    _say("try", name)
    try:
        yield
    except Exception as error:
        if _pipe is None:
            raise
        _say("broke", (f"{type(error).__name__}: {error}".splitlines() or ["?"])[0][:200])
        os._exit(1)
    _say("tried")


def refused(name):
    """Why an earlier process failed by it, or None."""
    return _refused.get(name)


def _work(pipe, cases, measure, known, group):
    global _pipe, _refused
    _pipe = pipe
    for name, case in cases.items():
        _refused = known.get(group(name), {})
        _say("case", name)
        result, sound = measure(case)
        _say("done", result)
        if not sound:
            return


def _listen(process, pipe, cases, seconds, take):
    """Until the process ends or is late. (case, what it tried, why it failed); no case where it just ended."""
    name, tried = next(iter(cases)), None
    while True:
        if not pipe.poll(seconds if tried else None):
            return name, tried, f"its first call was not over after {seconds:g} s"
        try:
            what, *more = pipe.recv()
        except EOFError:
            process.join()
            return name, tried, f"the process that measures ended with exit code {process.exitcode}"
        if what == "broke":
            return name, tried, more[0]
        if what == "case":
            name = more[0]
        elif what == "done":
            del cases[name]
            take(name, more[0], None)
            name = None
        else:
            tried = more[0] if what == "try" else None


def measure_all(cases, measure, take, seconds, group=lambda name: ""):
    """Calls take(name, result, None), or take(name, None, why), for each of {name: case}. `measure` gives the result and
    whether its process can go on. What failed is refused in all later cases of the group. A try has so many seconds."""
    left, known = dict(cases), {}
    while left:
        receiver, sender = _FORK.Pipe(duplex=False)
        process = _FORK.Process(target=_work, args=(sender, left, measure, known, group))
        process.start()
        sender.close()
        try:
            name, tried, why = _listen(process, receiver, left, seconds, take)
        finally:
            process.kill()
            process.join()
            receiver.close()
        if tried:
            known.setdefault(group(name), {})[tried] = why
        elif name is not None:
            del left[name]
            take(name, None, why)
