# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever happens to a daemon: faults, ranks and kills of bench/service.py.

faults: how long a job's start is held up by a daemon that is dead, silent, slow or no daemon, and what it is
answered. ranks: do all ranks of a job have one snapshot while others publish and the daemon is killed. kills:
is all that a daemon acknowledged there after kill -9. The tests run short forms of the last two.
"""
import concurrent.futures
import contextlib
import logging
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "client/python/src"), str(ROOT / "tests/client/python")]
DEADLINE = 0.25
KERNEL = "endurance"
SPEC = """name: "endurance"
summary: "y = 3 x"
source: "scale.cu"
entry: "scale"
dims { name: "n" default_value: 4096 min: 1 max: 1048576 }
dtypes: "f32"
params { name: "A" values: "range(0, 2000)" default_value: "0" }
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, 64)" block: "64" }
work { flops: "n" bytes: "2 * n * dtype_bytes" peak: "f32" }
reference { entry: "scale_reference" dtype: "f64" launch { grid: "ceil_div(n, 64)" block: "64" } }
"""
SOURCE = b"""
#ifdef TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0 * x[i];
}
#else
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0f * x[i];
}
#endif
"""


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}


def use_messages_of(build):
    os.environ.setdefault("TUNE_PROTO_SET", str(pathlib.Path(build) / "python/tune.protoset"))


class Submitter:
    """Sweeps of a small kernel on the CPU device, by gRPC."""

    def __init__(self, address, seconds=3600):
        from tunectl import _rpc

        self.error = _rpc.DaemonError
        self.connection = _rpc.Connection(address, seconds)
        self.source = _rpc.message("KernelSource")(spec_name=f"{KERNEL}.textproto", spec_text=SPEC,
                                                   files={"scale.cu": SOURCE})

    def submit(self, key="", **fields):
        budget = fields.pop("budget", {"seconds": 3600})
        return self.connection.call("SweepService", "SubmitSweep", kernel_source=self.source, device="cpu",
                                    strategy="exhaustive", cache_mode=2, fresh=True, budget=budget,
                                    idempotency_key=key, **fields).id

    def cancel(self, sweep):
        return self.connection.call("SweepService", "CancelSweep", sweep_id=sweep)

    def get(self, sweep):
        return self.connection.call("SweepService", "GetSweep", sweep_id=sweep)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.__exit__()


# --- faults


def frame(kind, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0]) + payload


@contextlib.contextmanager
def impostor(address, serve, backlog=64):
    """Calls serve(connection) for each connection; None: nobody accepts."""
    path = address.removeprefix("unix:")
    is_unix = path != address
    with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host, _, port = path.rpartition(":")
        server.bind(path if is_unix else (host, int(port)))
        server.listen(backlog)
        held = []

        def loop():
            while True:
                try:
                    connection, _ = server.accept()
                    held.append(connection)
                    threading.Thread(target=answer, args=[connection], daemon=True).start()
                except OSError:
                    return

        def answer(connection):
            with contextlib.suppress(OSError):
                serve(connection)

        if serve is not None:
            threading.Thread(target=loop, daemon=True).start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()
            if is_unix:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def silent(_):
    time.sleep(2)


def garbage(connection):
    connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n" + os.urandom(4096))


def greets(connection):
    connection.sendall(frame(4))
    time.sleep(2)


def slow(connection):
    """Settings, then a byte now and then."""
    connection.sendall(frame(4))
    for byte in frame(6, b"12345678") * 20:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def half_open(connection):
    """Says that it will send no more, and reads on."""
    connection.sendall(frame(4))
    connection.shutdown(socket.SHUT_WR)
    time.sleep(2)


def fault_kinds(folder, real_tls_address, port):
    """Of each fault: the address that a job asks, and what is there then."""
    path = f"unix:{folder}/d.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(f"{folder}/dead.sock")
    dead.close()
    tcp = f"127.0.0.1:{port}"
    return {
        "no socket": (path, contextlib.nullcontext()),
        "daemon dead": (f"unix:{folder}/dead.sock", contextlib.nullcontext()),
        "port closed": (tcp, contextlib.nullcontext()),
        "black hole": ("10.255.255.1:7878", contextlib.nullcontext()),
        "nobody accepts": (path, impostor(path, None)),
        "silent": (path, impostor(path, silent)),
        "silent, TCP": (tcp, impostor(tcp, silent)),
        "garbage": (path, impostor(path, garbage)),
        "garbage, TCP": (tcp, impostor(tcp, garbage)),
        "greets, then silent": (path, impostor(path, greets)),
        "slow": (path, impostor(path, slow)),
        "half-open": (path, impostor(path, half_open)),
        # One that another authority signed. A token that has expired comes here once daemons take tokens.
        "wrong certificate": (real_tls_address, contextlib.nullcontext()),
    }


def faults(bench):
    """A job's start beside each fault, with a pinned snapshot in the node's cache and with one gone stale."""
    import kit
    import service
    import tunectl
    from tunectl import _sources

    logging.getLogger("tunectl").setLevel(logging.CRITICAL)
    folder = bench.folder / "faults"
    folder.mkdir()
    for name in ("right", "wrong"):
        (folder / name).mkdir()
        service.certificates(folder / name)
    port, tls_port = service.free_port(), service.free_port()
    daemon = service.Daemon(bench.build, folder / "state", "--tls-cert", folder / "wrong/daemon.pem", "--tls-key",
                            folder / "wrong/daemon.key", address=f"localhost:{tls_port}")
    data = kit.snapshot_bytes([kit.record(1)])
    digest = kit.digest_of(data)
    os.environ.update({"TUNE_STATE_DIR": f"{folder}/none", "TUNE_CACHE_DIR": f"{folder}/cache",
                       "TUNE_TLS_CA": f"{folder}/right/ca.pem"})
    use_messages_of(bench.build)
    rows = {}
    with daemon:
        service.wait_for_listener(daemon)
        for name, (address, there) in fault_kinds(folder, daemon.address, port).items():
            cache = _sources.NodeCache(f"{folder}/cache", address)
            cache.keep(digest, data, newest=True)
            for latest in (folder / "cache/snapshots").glob("latest-*"):
                os.utime(latest, (1, 1))  # too old to be taken unasked
            pinned, stale, wrong, exceptions = [], [], 0, []
            with there:
                for _ in range(10):
                    for snapshot, seconds in ((digest, pinned), (None, stale)):
                        began = time.monotonic()
                        try:
                            client = tunectl.open(snapshot, deadline=DEADLINE, address=address)
                            seconds.append(time.monotonic() - began)
                            answer = client.best("scale", n=4096, device=kit.H200)
                            wrong += (client.digest, answer.match, answer["THREADS"]) != (digest, "exact", 128)
                        except Exception as error:  # any is one too many
                            exceptions.append(repr(error))
            rows[name] = {"pinned_seconds": spread(pinned), "stale_seconds": spread(stale),
                          "wrong_answers": wrong, "exceptions": exceptions}
    worst = max(row["stale_seconds"]["median"] for row in rows.values())
    figure = {"deadline_seconds": DEADLINE, "faults": rows}
    return figure, (f"{len(rows)} faults: a start takes {worst * 1e3:.0f} ms at worst (median; goal 250), pinned "
                    f"{max(row['pinned_seconds']['median'] for row in rows.values()) * 1e3:.1f} ms; "
                    f"{sum(len(row['exceptions']) for row in rows.values())} exceptions, "
                    f"{sum(row['wrong_answers'] for row in rows.values())} wrong answers")


# --- kills


class Ledger:
    """What a daemon acknowledged: sweeps that were submitted, sweeps that were cancelled, trials that were told."""

    def __init__(self):
        self.lock = threading.Lock()
        self.followed = 0  # the sweep that runs
        self.submitted = {}
        self.cancelled = set()
        self.trials = {}
        self.lost = []

    def count(self):
        return len(self.submitted) + len(self.cancelled) + len(self.trials)

    def check(self, database):
        """Of a daemon that is not there: what its file lacks."""
        store = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        with contextlib.closing(store):
            keys = dict(store.execute("SELECT id, coalesce(idempotency_key, '') FROM sweep"))
            states = dict(store.execute("SELECT sweep.id, job.state FROM sweep JOIN job ON job.id = sweep.job_id"))
            for sweep, key in self.submitted.items():
                if keys.get(sweep) != key:
                    self.lost.append(f"sweep {sweep}")
            for sweep in self.cancelled:
                if states.get(sweep) != 4:
                    self.lost.append(f"cancelling sweep {sweep}, which is in state {states.get(sweep)}")
            for trial, median in self.trials.items():
                found = store.execute("SELECT latency_ns_median FROM trial WHERE id = ?", [trial]).fetchone()
                if found is None or found[0] != median:
                    self.lost.append(f"trial {trial}")
            return [row[0] for row in store.execute("PRAGMA quick_check(1)") if row[0] != "ok"]


def work_until_killed(address, ledger, submitters, until):
    """Several clients that submit and cancel, and one that follows the sweep that runs."""
    from tunectl import _rpc

    def submit(worker):
        with contextlib.suppress(_rpc.DaemonError), Submitter(address) as daemon:
            while not until.is_set():
                key = f"{worker}-{random.getrandbits(64):x}"
                sweep = daemon.submit(key)
                with ledger.lock:
                    ledger.submitted[sweep] = key
                daemon.cancel(sweep)
                with ledger.lock:
                    ledger.cancelled.add(sweep)

    def follow():
        with contextlib.suppress(_rpc.DaemonError), _rpc.Connection(address, 3600) as daemon:
            for event in daemon.watch("SweepService", "WatchSweep", sweep_id=ledger.followed):
                with ledger.lock:
                    for trial in event.trials:
                        ledger.trials[trial.id] = trial.measurement.latency_ns_median or None
                if until.is_set():
                    return

    threads = [threading.Thread(target=submit, args=[worker], daemon=True) for worker in range(submitters)]
    threads.append(threading.Thread(target=follow, daemon=True))
    for thread in threads:
        thread.start()
    return threads


def kill_again_and_again(build, state, trials, submitters=3, check_every=50, serving=None):
    """The ledger, the files' faults, and the seconds of each start. `serving(daemon)` waits until it serves."""
    import service

    use_messages_of(build)
    ledger, damaged, starts = Ledger(), [], []
    daemon = service.Daemon(build, state, "--job-deaths", 1000)
    try:
        for trial in range(trials):
            began = time.monotonic()
            daemon.start()
            serving(daemon) if serving else service.wait_for_listener(daemon)
            starts.append(time.monotonic() - began)
            if trial == 0:
                with Submitter(daemon.address) as submitter:
                    ledger.followed = submitter.submit("first")
                    ledger.submitted[ledger.followed] = "first"
            until = threading.Event()
            threads = work_until_killed(daemon.address, ledger, submitters, until)
            told = len(ledger.trials)
            time.sleep(random.uniform(0.05, 0.4))
            if trial % 5 == 4:  # the sweep that runs was taken up again, and is in the middle of it
                ends = time.monotonic() + 3
                while len(ledger.trials) <= told and time.monotonic() < ends:
                    time.sleep(0.005)
            daemon.kill(signal.SIGKILL)
            until.set()
            for thread in threads:
                thread.join(timeout=30)
            if (trial + 1) % check_every == 0 or trial + 1 == trials:
                damaged += ledger.check(f"{state}/tune.db")
    finally:
        daemon.kill(signal.SIGKILL)
    return ledger, damaged, starts


def kills(bench):
    """kill -9 under load, on the store with many records."""
    state = bench.folder / "killed/state"
    state.mkdir(parents=True)
    for name in os.listdir(bench.state()):
        if name.startswith(("tune.db", "records.index")):
            shutil.copy(bench.state() / name, state / name)
    import service

    with service.Daemon(bench.build, state) as daemon:  # once, as it is when it is killed the next time
        bench.until_answered(daemon)
        time.sleep(bench.seconds)
    loads = []

    def serving(daemon):
        bench.until_answered(daemon)
        loads.append(os.getloadavg()[0])

    ledger, damaged, starts = kill_again_and_again(bench.build, state, bench.trials, serving=serving,
                                                   check_every=max(1, bench.trials // 10))
    figure = {"kills": len(starts), "acknowledged": ledger.count(), "trials_told": len(ledger.trials),
              "lost": ledger.lost[:20], "damaged": damaged, "start_seconds": spread(starts), "load": spread(loads),
              "starts_within_1_s": sum(one <= 1 for one in starts)}
    return figure, (f"{len(starts)} kills, {ledger.count()} rows acknowledged, {len(ledger.lost)} lost, {len(damaged)} "
                    f"damaged; serving again after {figure['start_seconds']['median']:.2f} s (goal 1), at most "
                    f"{max(starts):.2f} s")


# --- ranks


def rank_digests(count, digest, environ, question):
    """In a process of its own: what that many ranks of a node open and are answered."""
    os.environ.update(environ)
    import tunectl

    seen = set()
    for _ in range(count):
        client = tunectl.open(digest, deadline=DEADLINE)
        seen.add((client.digest, str(sorted(client.best(KERNEL, **question).items()))))
    return seen


def leader_digest(digest, environ, deadline):
    """A process that asks the daemon: forked children of ours ask none."""
    code = ("import sys, tunectl; c = tunectl.open(sys.argv[1], deadline=float(sys.argv[2])); "
            f"print(c.digest); print(sorted(c.best('{KERNEL}', n=4096, device='cpu').items()))")
    done = subprocess.run([sys.executable, "-c", code, digest, str(deadline)], capture_output=True, text=True,
                          env={**os.environ, **environ}, check=False)
    lines = done.stdout.splitlines()
    return {(lines[0], lines[1])} if len(lines) == 2 else {("", done.stderr[-300:])}


def publish_until(address, done, published):
    """Short sweeps, each of which publishes a record."""
    from tunectl import _rpc

    while not done.is_set():
        with contextlib.suppress(_rpc.DaemonError), Submitter(address) as daemon:
            sweep = daemon.submit(dims={"n": random.choice([1024, 4096, 16384])}, budget={"trials": 2})
            while not done.is_set() and daemon.get(sweep).state in (1, 2):
                time.sleep(0.02)
            if daemon.get(sweep).state == 3:
                published.append(sweep)
        time.sleep(0.02)


def rank_trials(build, folder, trials, ranks=1024, nodes=8):
    """Of each trial the digests that its ranks had; how many sweeps published; seconds of a trial."""
    import service
    from tunectl import _rpc

    use_messages_of(build)
    folder = pathlib.Path(folder)
    daemon = service.Daemon(build, folder / "state", "--job-deaths", 1000)
    os.environ["PYTHONPATH"] = str(ROOT / "client/python/src")
    question = {"n": 4096, "device": "cpu"}
    results, seconds, published, done = [], [], [], threading.Event()
    publisher = threading.Thread(target=publish_until, args=[daemon.address, done, published], daemon=True)
    pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count())
    try:
        daemon.start()
        service.wait_for_listener(daemon)
        publisher.start()
        while not published:
            time.sleep(0.05)
        for trial in range(trials):
            began = time.monotonic()
            with _rpc.Connection(daemon.address, 30) as connection:
                digest = connection.call("SnapshotService", "PinSnapshot", snapshot="", note="bench").digest
            environs = [{"TUNE_ADDRESS": daemon.address, "TUNE_STATE_DIR": str(folder / "state"),
                         "TUNE_CACHE_DIR": f"{folder}/cache-0"}]  # of the daemon's own host
            for node in range(1, nodes):
                environs.append({**environs[0], "TUNE_STATE_DIR": f"{folder}/none",
                                 "TUNE_CACHE_DIR": f"{folder}/cache-{trial}-{node % 2 + 1}"})
            seen = set()
            for environ in environs[1:3]:  # the first of a node fetches, all others read its cache
                seen |= leader_digest(digest, environ, 30)
            asked = [pool.submit(rank_digests, ranks // nodes, digest, environ, question) for environ in environs]
            time.sleep(random.uniform(0, 0.2))
            daemon.kill(signal.SIGKILL)
            daemon.start()
            for one in asked:
                seen |= one.result()
            service.wait_for_listener(daemon)
            late = {**environs[1], "TUNE_CACHE_DIR": f"{folder}/cache-{trial}-late"}  # a node that joins afterwards
            seen |= leader_digest(digest, late, 30)
            with _rpc.Connection(daemon.address, 30) as connection:
                connection.call("SnapshotService", "UnpinSnapshot", snapshot=digest)
            for cache in folder.glob(f"cache-{trial}-*"):
                shutil.rmtree(cache)
            results.append((digest, seen))
            seconds.append(time.monotonic() - began)
    finally:
        done.set()
        pool.shutdown()
        daemon.kill(signal.SIGKILL)
    return results, len(published), seconds


def ranks(bench):
    """1024 ranks of eight nodes, publishes racing, the daemon killed and started again in the middle."""
    folder = bench.folder / "ranks"
    folder.mkdir()
    results, published, seconds = rank_trials(bench.build, folder, bench.trials)
    one = sum(len(seen) == 1 and next(iter(seen))[0] == digest for digest, seen in results)
    odd = [sorted(seen) for digest, seen in results if len(seen) != 1][:5]
    figure = {"ranks": 1024, "trials": len(results), "one_digest": one, "published": published,
              "snapshots": len({digest for digest, _ in results}), "odd": odd, "trial_seconds": spread(seconds)}
    return figure, (f"one digest in {one} of {len(results)} trials; {published} publishes, {figure['snapshots']} "
                    f"snapshots")
