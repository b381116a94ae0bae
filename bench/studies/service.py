#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the service: a real daemon on a store of a million records, beside a bare gRPC server.

    bench/studies/service.py --out service-cpu.json [--records N] [--store FOLDER] [PART ...]

Parts: start lookup loaded storm python library faults ranks kills (default: all). Each figure prints one line and is
in the JSON file from then on; parts that are run again replace theirs. Ratios are ours over the echo's, taken
by turns in the same run, so a machine that does other things too spoils both alike. `--store` keeps the store
for the next run. faults, ranks and kills are bench/studies/endurance.py. ranks and kills need a Python with grpcio.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import endurance  # noqa: E402
from harness import (ELLIPTIC, ROOT, Daemon, Submitter, certificates, free_port, now, processor, spread,  # noqa: E402
                     use_messages_of)

sys.path[:0] = [str(ROOT / "tests/client/python")]
QUESTIONS = 512  # each is asked many times, as by the ranks of a job
QUESTIONS_ONCE = 50_000  # where none is asked again
STORM_CLIENTS = 2000
SAXPY = str(ROOT / "docs/examples/saxpy/saxpy.textproto")


class Bench:
    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        self.records = arguments.records
        self.seconds = arguments.seconds
        self.trials = arguments.trials
        self.scratch = tempfile.TemporaryDirectory(prefix="tune-service-")
        self.folder = pathlib.Path(self.scratch.name)
        self.kept = pathlib.Path(arguments.store) if arguments.store else self.folder / "store"
        self.out = pathlib.Path(arguments.out)
        self.figures = json.loads(self.out.read_text())["figures"] if self.out.exists() else {}

    def state(self):
        """The state folder with the many records, made at the first need."""
        state = self.kept / "state"
        done = self.kept / f"records-{self.records}"
        if not done.exists():
            shutil.rmtree(self.kept, ignore_errors=True)
            state.mkdir(parents=True)
            subprocess.run([str(self.build / "bench/record_store"), str(state), "--records", str(self.records)],
                           check=True)
            done.touch()
        return state

    def questions(self, kind="exact"):
        """A file of questions that the store has records for, or near ones."""
        path = self.folder / f"{kind}.json"
        if path.exists():
            return path
        random.seed(1)
        store = sqlite3.connect(f"file:{self.state()}/tune.db?mode=ro", uri=True)
        most = store.execute("SELECT max(id) FROM record").fetchone()[0]
        found = []
        for record in random.sample(range(1, most + 1), QUESTIONS_ONCE if "first" in kind else QUESTIONS):
            row = store.execute(
                "SELECT kernel.name, dims, dtype, device_name FROM record JOIN trial ON trial.id = trial_id "
                "JOIN trial_key ON trial_key.id = key_id JOIN kernel ON kernel.hash = kernel_hash "
                "WHERE record.id = ?", [record]).fetchone()
            dims = json.loads(row[1])
            if "near" in kind:
                dims["seq_q"] += 1
            found.append({"kernel": row[0], "dims": dims, "dtype": row[2], "device": row[3]})
        store.close()
        path.write_text(json.dumps(found))
        return path

    def load(self, command, *arguments, **options):
        """A command of bench/studies/service_load."""
        done = subprocess.run([str(self.build / "bench/service_load"), command, *map(str, arguments)],
                              capture_output=True, text=True, check=False, **options)
        if done.returncode != 0:
            raise RuntimeError(f"service_load {command}: {done.stderr[-2000:]}")
        return json.loads(done.stdout) if done.stdout else {}

    def until_answered(self, daemon, began=None, limit=600):
        """Seconds until the daemon answers a look-up, since `began`."""
        began = began or time.monotonic()
        while time.monotonic() - began < limit:
            if daemon.process.poll() is not None:
                raise RuntimeError("the daemon has ended")
            with contextlib.suppress(RuntimeError):
                self.load("answer", "--ours", daemon.address, "--questions", self.questions(),
                          "--out", self.folder / "answer")
                return time.monotonic() - began
            time.sleep(0.005)
        raise RuntimeError("the daemon does not answer")

    @contextlib.contextmanager
    def served(self, *flags):
        """A daemon on the many records that answers, and an echo of its answers' size."""
        with Daemon(self.build, self.state(), *flags) as daemon:
            self.until_answered(daemon)
            daemon.await_idle()
            echo = f"unix:{self.folder}/echo.sock"
            server = subprocess.Popen([str(self.build / "bench/service_load"), "echo", "--listen", echo,
                                       "--answer", str(self.folder / "answer")])
            try:
                time.sleep(0.5)
                yield daemon, echo
            finally:
                server.kill()
                server.wait()

    def note(self, name, figure, text):
        self.figures[name] = {"date": now(), "load_average": os.getloadavg(), **figure}
        out = {"host": f"{os.cpu_count()} x {processor()}", "records": self.records, "versions": self.versions(),
               "figures": self.figures}
        beside = self.out.with_name(self.out.name + ".part")
        beside.write_text(json.dumps(out, indent=1) + "\n")
        beside.replace(self.out)
        print(f"{name}: {text}", flush=True)

    def versions(self):
        said = subprocess.run([str(self.build / "bin/tunerd"), "--version"], capture_output=True, text=True, check=True)
        commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                check=False)
        return {"tunerd": said.stdout.strip(), "commit": commit.stdout.strip(), "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version, "kernel": platform.release()}


def start(bench):
    """Seconds from kill -9 under no load to the first look-up that is answered, and the memory then."""
    seconds = []
    daemon = Daemon(bench.build, bench.state())
    try:
        for _ in range(7):
            began = time.monotonic()
            daemon.start()
            seconds.append(bench.until_answered(daemon, began))
            if len(seconds) == 1:
                time.sleep(bench.seconds)  # what it does in the background once it serves
            memory = daemon.memory_mib()
            daemon.kill()
    finally:
        daemon.kill()
    figure = {"first_seconds": seconds[0], "again_seconds": spread(seconds[1:]), "memory_mib": memory}
    bench.note("start", figure, f"first {seconds[0]:.2f} s, after kill -9 {figure['again_seconds']['median']:.2f} s "
               f"(goal 1), own memory {memory['own']:.0f} MiB")


def ratios(figure):
    ours, echo = figure["ours"], figure["echo"]
    return (f"p50 {ours['p50']:.0f} us, {figure['p50_ratio']['median']:.2f} of the echo's; p99 {ours['p99']:.0f} us, "
            f"{figure['p99_ratio']:.2f}; {ours['errors']} errors")


def lookup(bench):
    """One caller and sixteen over the unix socket, by turns with the echo. They ask as jobs do, each question many
    times; `first` has questions that were not asked before, about problems that have records, `first_near` about others."""
    with bench.served() as (daemon, echo):
        common = ("--ours", daemon.address, "--echo", echo, "--seconds", bench.seconds)
        for kind in ("exact", "near"):
            figure = bench.load("latency", *common, "--questions", bench.questions(kind))
            bench.note(f"lookup.{kind}", figure, ratios(figure) + " (goals 1.25 and 2)")
        for kind in ("first", "first_near"):
            figure = bench.load("latency", *common, "--once", "--questions", bench.questions(kind))
            bench.note(f"lookup.{kind}", figure, ratios(figure) + ": questions that nobody asked before")
        figure = bench.load("rate", *common, "--questions", bench.questions())
        figure["memory_mib"] = daemon.memory_mib()
        bench.note("lookup.16_callers", figure, f"{figure['ours']['calls_per_second']:.0f} a second, "
                   f"{figure['rate_ratio']['median']:.2f} of the echo's (goal 0.85)")


class Disturbance:
    """A sweep, a backup and a hundred commits a second, until the end."""

    def __init__(self, bench, daemon):
        self.bench, self.daemon = bench, daemon
        self.environ = {**os.environ, "TUNE_ADDRESS": daemon.address, "NO_COLOR": "1"}
        self.done = threading.Event()
        self.counts = {"sweeps": 0, "backups": 0, "commits": 0}
        self.threads = [threading.Thread(target=self.again, args=[one], daemon=True)
                        for one in (self.sweep, self.back_up, self.commit)]

    def again(self, one):
        while not self.done.is_set():
            one()

    def sweep(self):
        subprocess.run([str(self.bench.build / "bin/tunectl"), "sweep", SAXPY, "--device", "cpu", "--budget", "3",
                        "--fresh"], env=self.environ, capture_output=True, check=False)
        self.counts["sweeps"] += 1

    def back_up(self):
        source = sqlite3.connect(f"file:{self.bench.state()}/tune.db?mode=ro", uri=True)
        with contextlib.closing(source), contextlib.closing(sqlite3.connect(self.bench.folder / "backup.db")) as copy:
            def stop(*unused):
                if self.done.is_set():
                    raise InterruptedError
            with contextlib.suppress(InterruptedError, sqlite3.OperationalError):
                source.backup(copy, pages=1000, progress=stop)
        self.counts["backups"] += 1

    def commit(self):
        """Jobs that are submitted and cancelled while they wait: two commits each."""
        use_messages_of(self.bench.build)
        with Submitter(self.daemon.address) as submitter:
            while not self.done.is_set():
                began = time.monotonic()
                submitter.cancel(submitter.submit())
                self.counts["commits"] += 2
                time.sleep(max(0, 0.02 - (time.monotonic() - began)))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(3)
        self.began = time.monotonic(), self.counts["commits"]
        return self

    def __exit__(self, *unused):
        seconds = time.monotonic() - self.began[0]
        self.counts["commits_per_second"] = (self.counts["commits"] - self.began[1]) / seconds
        self.done.set()
        for thread in self.threads:
            thread.join(timeout=60)


def loaded(bench):
    """The look-ups of one caller while the daemon sweeps, is backed up and commits."""
    with bench.served() as (daemon, echo):
        with Disturbance(bench, daemon) as load:
            figure = bench.load("latency", "--ours", daemon.address, "--echo", echo, "--seconds", bench.seconds,
                                "--questions", bench.questions())
        figure["load"] = load.counts
        bench.note("lookup.loaded", figure, ratios(figure) + f" (goal 2); beside {load.counts['sweeps']} sweeps, "
                   f"{load.counts['backups']} backups, {load.counts['commits_per_second']:.0f} commits a second")


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def storm_of(bench, daemon, *flags):
    idle, began, clients_began = daemon.memory_mib(), daemon.processor_seconds(), children_seconds()
    process = subprocess.Popen([str(bench.build / "bench/service_load"), "storm", "--ours", daemon.address,
                                "--questions", str(bench.questions()), "--clients", str(STORM_CLIENTS),
                                *map(str, flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    held = daemon.memory_mib()
    process.communicate("\n")
    figure = json.loads("".join(lines))
    # All clients are here; elsewhere each has processors of its own.
    figure["daemon_processor_seconds"] = daemon.processor_seconds() - began
    figure["clients_processor_seconds"] = children_seconds() - clients_began
    figure["daemon_kib_a_client"] = (held["own"] - idle["own"]) * 1024 / STORM_CLIENTS
    return figure


def storm(bench):
    """Two thousand clients that start at once, over the unix socket and by certificates of two kinds."""
    keys = {"certificates": ("rsa:2048",), "elliptic_certificates": ELLIPTIC}
    for name, goal in (("plain", 3), ("certificates", 10), ("elliptic_certificates", 10)):
        rounds = []
        for _ in range(3):
            if name == "plain":
                daemon, flags = Daemon(bench.build, bench.state()), ()
            else:
                folder = bench.folder / name
                if not folder.exists():
                    folder.mkdir()
                    certificates(folder, keys[name])
                daemon = Daemon(bench.build, bench.state(), "--tls-cert", folder / "daemon.pem", "--tls-key",
                                folder / "daemon.key", "--tls-ca", folder / "ca.pem",
                                address=f"localhost:{free_port()}")
                flags = ("--tls-ca", folder / "ca.pem", "--tls-cert", folder / "client.pem", "--tls-key",
                         folder / "client.key")
            with daemon:
                daemon.await_listener()
                daemon.await_idle()
                rounds.append(storm_of(bench, daemon, *flags))
        errors = sum(sum(one["errors"].values()) for one in rounds)
        seconds = spread([one["max"] / 1e6 for one in rounds])
        figure = {"clients": STORM_CLIENTS, "seconds": seconds, "errors": errors, "rounds": rounds}
        bench.note(f"storm.{name}", figure, f"{STORM_CLIENTS} clients in {seconds['median']:.2f} s "
                   f"(goal {goal}; processors: {rounds[-1]['daemon_processor_seconds']:.1f} s the daemon's, "
                   f"{rounds[-1]['clients_processor_seconds']:.1f} s the clients'), {errors} errors, "
                   f"{rounds[-1]['daemon_kib_a_client']:.0f} KiB each")


def timed(action):
    began = time.process_time()  # other programs of the host do not count
    action()
    return time.process_time() - began


def import_seconds():
    """Of the package, beyond a bare interpreter's start."""
    code = "import time; t = time.process_time(); import tunectl; print(time.process_time() - t)"
    return float(subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT / "client/python/src")},
                                check=True, capture_output=True, text=True).stdout)


def snapshot(records_count=1000):
    """Its bytes, with records of the kernel `scale`."""
    import kit

    return kit.daemon_bytes([kit.record(i + 1, n=64 * (i + 1)) for i in range(records_count)])


def python(bench):
    """Processor times of the Python package, best of several repeats, each beside its bound."""
    import kit
    import tunectl

    folder, data = bench.folder / "python", snapshot()
    os.environ.update({"TUNE_STATE_DIR": f"{folder}/state", "TUNE_CACHE_DIR": f"{folder}/cache",
                       "TUNE_ADDRESS": f"unix:{folder}/none.sock"})
    digest = kit.put_in_cache(data)
    tunectl.open(digest)
    question = {"n": 4096, "mode": 0, "device": kit.H200}

    def hits():
        for _ in range(10_000):
            tunectl.best("scale", **question)

    def misses():
        client = tunectl.open(digest)
        client.best("scale", **question)
        return timed(lambda: [client.best("scale", n=n, device=kit.H200) for n in range(1001, 1101)]) / 100

    def best_of(repeats, run):
        return min(run() for _ in range(repeats))

    rows = [("import tunectl", best_of(7, import_seconds), 50e-3),
            ("start from the node cache", best_of(7, lambda: timed(lambda: tunectl.open(digest))), 5e-3),
            ("look-up that was asked before", best_of(7, lambda: timed(hits)) / 10_000, 2e-6),
            ("look-up of a new problem", best_of(3, misses), 5e-3),
            ("start without a daemon", best_of(7, lambda: timed(tunectl.open)), 50e-3)]
    figure = {name: {"seconds": seconds, "bound": bound} for name, seconds, bound in rows}
    bench.note("python", figure, ", ".join(f"{name} {seconds * 1e6:.1f} us (goal {bound * 1e6:.0f})"
                                           for name, seconds, bound in rows))


def library(bench):
    """What libtune costs a job that starts from the node's cache, on the same snapshot as the Python package."""
    import hashlib

    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        data = snapshot()
        digest = hashlib.sha256(data).hexdigest()
        cache = pathlib.Path(folder) / "snapshots"
        cache.mkdir(mode=0o700)
        (cache / f"sha256-{digest}.json").write_bytes(data)
        environ = {**os.environ, "TUNE_SNAPSHOT": f"sha256:{digest}", "TUNE_CACHE_DIR": folder,
                   "TUNE_STATE_DIR": f"{folder}/state"}
        done = subprocess.run([bench.build / "bench/library_benchmark", "--benchmark_format=json",
                               "--benchmark_repetitions=5"], env=environ, check=True, capture_output=True, text=True)
    figure = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row["run_type"] == "iteration":
            seconds = row["cpu_time"] * {"ns": 1e-9, "ms": 1e-3}[row["time_unit"]]
            figure.setdefault(row["name"].removeprefix("BM_"), []).append(seconds)
    figure = {name: {"median": statistics.median(times), "low": min(times), "high": max(times)}
              for name, times in figure.items()}
    bench.note("library", figure, ", ".join(f"{name} {row['median'] * 1e9:.0f} ns" for name, row in figure.items())
               + " (goals: a hit 100 ns, a start 5 ms)")


def endurance_part(name):
    return lambda bench: bench.note(name, *getattr(endurance, name)(bench))


PARTS = {"start": start, "lookup": lookup, "loaded": loaded, "storm": storm, "python": python, "library": library,
         "faults": endurance_part("faults"), "ranks": endurance_part("ranks"), "kills": endurance_part("kills")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--store", help="a folder where the store with the records is kept")
    parser.add_argument("--seconds", type=float, default=20, help="for each of the look-ups' figures")
    parser.add_argument("--trials", type=int, default=1000, help="of ranks and of kills")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for part in arguments.parts or PARTS:
        PARTS[part](bench)


if __name__ == "__main__":
    main()
