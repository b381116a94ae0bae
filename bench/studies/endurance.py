# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever happens to a daemon: faults, ranks and kills of bench/studies/service.py.

faults: how long a job's start is held up by a daemon that is dead, silent, slow or no daemon, and what it is
answered. ranks: do all ranks of a job have one snapshot while others publish and the daemon is killed. kills:
is all that a daemon acknowledged there after kill -9 (jobs that were queued or cancelled, trials, records,
tokens that were made or revoked), and is nothing published that was not confirmed. The tests run short forms of the
last two.
"""
import concurrent.futures
import contextlib
import logging
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import (BACKGROUND, DONE, ELLIPTIC, ENDED, KERNEL, ROOT, Daemon, Submitter, certificates,  # noqa: E402
                     free_port, spread, use_messages_of)

sys.path[:0] = [str(ROOT / "tests/client/python")]
DEADLINE = 0.25


def until_interrupted(count):
    """range(count), which Ctrl-C ends early: what was measured by then counts."""
    stopped = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        for i in range(count):
            if stopped.is_set():
                return
            yield i
    finally:
        signal.signal(signal.SIGINT, before)


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


def token_that_has_ended(build, state, path):
    """A reader's, in a file of its own, of a daemon that is not there."""
    environ = {**os.environ, "TUNE_STATE_DIR": str(state), "XDG_RUNTIME_DIR": str(state)}
    environ.pop("TUNE_ADDRESS", None)
    subprocess.run([str(build / "bin/tunectl"), "token", "create", "job", "--role", "reader", "--out", str(path)],
                   env=environ, check=True, capture_output=True)
    with contextlib.closing(sqlite3.connect(f"{state}/tune.db")) as store:
        store.execute("UPDATE token SET expires_unix_ms = created_unix_ms")
        store.commit()


class FaultTrials:
    """Starts of a job beside each fault, with a snapshot in the node's cache."""

    def __init__(self, build, folder):
        import kit

        self.folder, self.kit = pathlib.Path(folder), kit
        places = {}
        for name in ("right", "wrong"):
            (self.folder / name).mkdir(parents=True)
            places[name] = certificates(self.folder / name, ELLIPTIC)
        token = self.folder / "job.token"
        token_that_has_ended(build, self.folder / "state-right", token)
        self.daemons = {name: Daemon(build, self.folder / f"state-{name}", "--tls-cert", files["daemon.pem"],
                                             "--tls-key", files["daemon.key"],
                                             address=f"localhost:{free_port()}")
                        for name, files in places.items()}
        self.free_port = free_port()
        self.token = {"TUNE_TOKEN_FILE": str(token)}
        self.data = kit.snapshot_bytes([kit.record(1)])
        self.digest = kit.digest_of(self.data)
        os.environ.update({"TUNE_STATE_DIR": f"{self.folder}/none", "TUNE_CACHE_DIR": f"{self.folder}/cache",
                           "TUNE_TLS_CA": str(places["right"]["ca.pem"]), "XDG_CONFIG_HOME": str(self.folder)})
        use_messages_of(build)

    def kinds(self):
        """Of each fault: the address that a job asks, what is there then, and the job's environment."""
        path, tcp, nothing = f"unix:{self.folder}/d.sock", f"127.0.0.1:{self.free_port}", contextlib.nullcontext()
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{self.folder}/dead.sock")
        return {
            "no socket": (path, nothing, {}),
            "daemon dead": (f"unix:{self.folder}/dead.sock", nothing, {}),
            "port closed": (tcp, nothing, {}),
            "black hole": ("10.255.255.1:7878", nothing, {}),
            "nobody accepts": (path, impostor(path, None), {}),
            "silent": (path, impostor(path, silent), {}),
            "silent, TCP": (tcp, impostor(tcp, silent), {}),
            "garbage": (path, impostor(path, garbage), {}),
            "garbage, TCP": (tcp, impostor(tcp, garbage), {}),
            "greets, then silent": (path, impostor(path, greets), {}),
            "slow": (path, impostor(path, slow), {}),
            "half-open": (path, impostor(path, half_open), {}),
            "wrong certificate": (self.daemons["wrong"].address, nothing, {}),  # that another authority signed
            "expired token": (self.daemons["right"].address, nothing, self.token),
        }

    def start(self, snapshot, address, row):
        """One start of a job: the seconds until it has its snapshot, whether its answer is right."""
        import tunectl

        began = time.monotonic()
        try:
            client = tunectl.open(snapshot, deadline=DEADLINE, address=address)
            row["pinned" if snapshot else "stale"].append(time.monotonic() - began)
            answer = client.best("scale", n=4096, device=self.kit.H200)
            row["wrong"] += (client.digest, answer.match, answer["THREADS"]) != (self.digest, "exact", 128)
        except Exception as error:  # any is one too many
            row["exceptions"].append(repr(error))

    def beside(self, kind, rounds):
        """Starts beside one fault: some that pin the snapshot, some for which it has gone stale, so that they ask."""
        address, there, environ = kind
        row = {"pinned": [], "stale": [], "wrong": 0, "exceptions": []}
        self.kit.put_in_cache(self.data, address)
        for latest in (self.folder / "cache/snapshots").glob("latest-*"):
            os.utime(latest, (1, 1))  # too old to be taken unasked
        os.environ.update(environ)
        with there:
            for _ in range(rounds):
                self.start(self.digest, address, row)
                self.start(None, address, row)
        for name in environ:
            del os.environ[name]
        return row

    def run(self, rounds):
        """By fault."""
        with contextlib.ExitStack() as stack:
            for daemon in self.daemons.values():
                stack.enter_context(daemon)
                daemon.await_listener()
            return {name: self.beside(kind, rounds) for name, kind in self.kinds().items()}


def faults(bench):
    """A job's start beside each fault, with a pinned snapshot in the node's cache and with one gone stale."""
    logging.getLogger("tunectl").setLevel(logging.CRITICAL)
    rows = {name: {"pinned_seconds": spread(row["pinned"]), "stale_seconds": spread(row["stale"]),
                   "wrong_answers": row["wrong"], "exceptions": row["exceptions"]}
            for name, row in FaultTrials(bench.build, bench.folder / "faults").run(10).items()}
    worst = max(row["stale_seconds"]["median"] for row in rows.values())
    figure = {"deadline_seconds": DEADLINE, "faults": rows}
    return figure, (f"{len(rows)} faults: a start takes {worst * 1e3:.0f} ms at worst (median; goal 250), pinned "
                    f"{max(row['pinned_seconds']['median'] for row in rows.values()) * 1e3:.1f} ms; "
                    f"{sum(len(row['exceptions']) for row in rows.values())} exceptions, "
                    f"{sum(row['wrong_answers'] for row in rows.values())} wrong answers")


# --- kills


class Ledger:
    """What a daemon acknowledged: sweeps that were submitted, that were cancelled, and that published; trials that were
    told; tokens that were made and revoked. Also what a file has that nobody may have put there."""

    def __init__(self):
        self.lock = threading.Lock()
        self.published = {}  # by sweep: the trial of its record
        self.tokens = set()
        self.revoked = set()
        self.false = []  # records of trials that nobody confirmed
        self.followed = 0  # the sweep that runs
        self.asked = {}  # by submitter: the key of the last submission, whose answer a kill may have eaten
        self.submitted = {}
        self.cancelled = set()
        self.trials = {}
        self.lost = []

    def count(self):
        return sum(map(len, (self.submitted, self.cancelled, self.trials, self.published, self.tokens, self.revoked)))

    def check(self, database):
        """Of a daemon that is not there: what its file lacks."""
        store = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        with contextlib.closing(store):
            keys = dict(store.execute("SELECT id, coalesce(idempotency_key, '') FROM sweep"))
            states = dict(store.execute("SELECT sweep.id, job.state FROM sweep JOIN job ON job.id = sweep.job_id"))
            for sweep, key in self.submitted.items():
                if keys.get(sweep, "").rpartition("/")[2] != key:  # the store puts the principal before it
                    self.lost.append(f"sweep {sweep}")
            for sweep in self.cancelled:
                if states.get(sweep) != 4:
                    self.lost.append(f"cancelling sweep {sweep}, which is in state {states.get(sweep)}")
            for trial, median in self.trials.items():
                found = store.execute("SELECT latency_ns_median FROM trial WHERE id = ?", [trial]).fetchone()
                if found is None or found[0] != median:
                    self.lost.append(f"trial {trial}")
            self._check_records(store, states)
            revoked = dict(store.execute("SELECT id, revoked_unix_ms != 0 FROM token"))
            self.lost += [f"token {token}" for token in self.tokens - revoked.keys()]
            self.lost += [f"revoking token {token}" for token in self.revoked if not revoked.get(token)]
            return [row[0] for row in store.execute("PRAGMA quick_check(1)") if row[0] != "ok"]

    def _check_records(self, store, states):
        """Each is of a trial that was confirmed, of a sweep that is done, once; and all that was told is there."""
        records = list(store.execute(
            "SELECT trial_id, purpose, outcome, sweep_id, best_trial_id FROM record JOIN trial ON trial.id = trial_id "
            "JOIN sweep ON sweep.id = sweep_id"))
        for trial, purpose, outcome, sweep, best in records:
            if (purpose, outcome, states[sweep], best) != (2, 1, DONE, trial):
                self.false.append(f"trial {trial} of sweep {sweep}: purpose {purpose}, outcome {outcome}, state "
                                  f"{states[sweep]}, its winner is trial {best}")
        trials = [record[0] for record in records]
        self.false += [f"trial {trial} twice" for trial in set(trials) if trials.count(trial) > 1]
        self.lost += [f"the record of sweep {sweep}" for sweep, trial in self.published.items() if trial not in trials]


def work_until_killed(address, ledger, submitters, until, publishes=True):
    """Several clients that submit and cancel, one that follows the sweep that runs, one that has sweeps end with a
    record, and one that makes tokens and revokes them."""
    from tunectl import _rpc

    def submit(worker):
        with contextlib.suppress(_rpc.DaemonError), Submitter(address) as daemon:
            while not until.is_set():
                # A key of before the kill names the sweep that was submitted then, if there is one: none is left over.
                key = ledger.asked.setdefault(worker, f"{worker}-{random.getrandbits(64):x}")
                sweep = daemon.submit(key, priority=BACKGROUND)  # it waits, and interrupts nothing
                with ledger.lock:
                    ledger.submitted[sweep] = key
                daemon.cancel(sweep)
                with ledger.lock:
                    ledger.cancelled.add(sweep)
                del ledger.asked[worker]

    def follow():
        with contextlib.suppress(_rpc.DaemonError), _rpc.Connection(address, 3600) as daemon:
            job = daemon.call("SweepService", "GetSweep", sweep_id=ledger.followed).job_id
            for event in daemon.watch("JobService", "WatchJob", job_id=job):
                with ledger.lock:
                    for trial in _rpc.unpacked(event.results, "Trial"):
                        ledger.trials[trial.id] = trial.measurement.latency_ns_median or None
                if until.is_set():
                    return

    def publish():
        """One after the other. Of a sweep that is taken up again the same key gives the same sweep."""
        with contextlib.suppress(_rpc.DaemonError), Submitter(address) as daemon:
            while not until.is_set():
                key = ledger.asked.setdefault("publish", f"publish-{random.getrandbits(64):x}")
                sweep = daemon.submit(key, strategy="random", budget={"trials": 2})
                with ledger.lock:
                    ledger.submitted[sweep] = key
                while (now := daemon.get(sweep)).state not in ENDED and not until.is_set():
                    time.sleep(0.02)
                if now.state in ENDED:
                    if now.result.confirm_rounds > 0:
                        with ledger.lock:
                            ledger.published[sweep] = now.result.best.id
                    del ledger.asked["publish"]

    def revoke():
        with contextlib.suppress(_rpc.DaemonError), _rpc.Connection(address, 3600) as daemon:
            while not until.is_set():
                name = f"t{random.getrandbits(64):x}"
                token = daemon.call("TokenService", "CreateToken", name=name, role=1).token.id
                with ledger.lock:
                    ledger.tokens.add(token)
                daemon.call("TokenService", "RevokeToken", token_id=token)
                with ledger.lock:
                    ledger.revoked.add(token)
                time.sleep(0.01)

    threads = [threading.Thread(target=submit, args=[worker], daemon=True) for worker in range(submitters)]
    threads += [threading.Thread(target=one, daemon=True) for one in (follow, revoke, *([publish] if publishes else []))]
    for thread in threads:
        thread.start()
    return threads


def await_more(is_more, seconds):
    ends = time.monotonic() + seconds
    while not is_more() and time.monotonic() < ends:
        time.sleep(0.005)


def kill_again_and_again(build, state, trials, submitters=3, check_every=50, serving=None):
    """The ledger, the files' faults, and the seconds of each start. `serving(daemon)` waits until it serves."""
    use_messages_of(build)
    ledger, damaged, starts = Ledger(), [], []
    daemon = Daemon(build, state, "--job-deaths", 1000)
    try:
        for trial in until_interrupted(trials):
            began = time.monotonic()
            daemon.start()
            serving(daemon) if serving else daemon.await_listener()
            starts.append(time.monotonic() - began)
            if trial == 0:
                with Submitter(daemon.address) as submitter:
                    ledger.followed = submitter.submit("first", priority=BACKGROUND)
                    ledger.submitted[ledger.followed] = "first"
            until = threading.Event()
            follows = trial % 10 == 9  # the sweep in the background, which has the device while nobody publishes
            threads = work_until_killed(daemon.address, ledger, submitters, until, publishes=not follows)
            told, published = len(ledger.trials), len(ledger.published)
            time.sleep(random.uniform(0.05, 0.4))
            if follows:  # it was taken up again, and is in the middle of it
                await_more(lambda: len(ledger.trials) > told, 30)  # noqa: B023
            elif trial % 5 == 2:
                await_more(lambda: len(ledger.published) > published, 120)  # noqa: B023
            daemon.kill(signal.SIGKILL)
            until.set()
            for thread in threads:
                thread.join(timeout=30)
            if (trial + 1) % check_every == 0:
                damaged += ledger.check(f"{state}/tune.db")
    finally:
        daemon.kill(signal.SIGKILL)
    damaged += ledger.check(f"{state}/tune.db")
    return ledger, damaged, starts


def kills(bench):
    """kill -9 under load, on the store with many records."""
    state = bench.folder / "killed/state"
    state.mkdir(parents=True)
    for name in os.listdir(bench.state()):
        if name.startswith(("tune.db", "records.index")):
            shutil.copy(bench.state() / name, state / name)
    with Daemon(bench.build, state) as daemon:  # once, until it has the index that the next one opens
        bench.until_answered(daemon)
        ends = time.monotonic() + 600
        while not (state / "records.index").exists() and time.monotonic() < ends:
            time.sleep(0.1)
    loads = []

    def serving(daemon):
        bench.until_answered(daemon)
        loads.append(os.getloadavg()[0])

    ledger, damaged, starts = kill_again_and_again(bench.build, state, bench.trials, serving=serving,
                                                   check_every=100)
    figure = {"kills": len(starts), "acknowledged": ledger.count(), "trials_told": len(ledger.trials),
              "published": len(ledger.published), "revoked": len(ledger.revoked),
              "lost": ledger.lost[:20], "false_records": ledger.false[:20], "damaged": damaged, "start_seconds": spread(starts), "load": spread(loads),
              "starts_within_1_s": sum(one <= 1 for one in starts)}
    return figure, (f"{len(starts)} kills, {ledger.count()} rows acknowledged, {len(ledger.lost)} lost, "
                    f"{len(ledger.published)} published, {len(ledger.false)} false records, {len(damaged)} "
                    f"damaged; serving again after {figure['start_seconds']['median']:.2f} s (goal 1), at most "
                    f"{max(starts):.2f} s")


# --- ranks


def rank_answers(count, digest, environ, deadline=DEADLINE):
    """In a process of its own: what that many ranks of a node open, one after the other, and are answered."""
    os.environ.update(environ)
    import tunectl

    seen = set()
    for _ in range(count):
        client = tunectl.open(digest, deadline=deadline)
        seen.add((client.digest, str(sorted(client.best(KERNEL, n=4096, device="cpu").items()))))
    return seen


class Publisher:
    """Publishes without end, by sweeps of one trial: what a daemon that is killed leaves, the next goes on with."""

    FIRST_TRIALS = 4  # of the first sweep, for `publish_again` to choose from

    def __init__(self, address):
        self.address = address
        self.count = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        from tunectl import _rpc

        sweep = 0
        while not self.done.wait(0.02):
            with contextlib.suppress(_rpc.DaemonError), Submitter(self.address, 60) as daemon:
                while not self.done.wait(0.02):
                    if not sweep:
                        sweep = daemon.submit(strategy="random", seed=random.getrandbits(30),
                                              budget={"trials": 1 if self.count else self.FIRST_TRIALS})
                    state = daemon.get(sweep).state
                    if state in ENDED:
                        self.count += state == DONE
                        sweep = 0

    def wait_for(self, more, seconds=60):
        ends, count = time.monotonic() + seconds, self.count + more
        while self.count < count and time.monotonic() < ends:
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.done.set()
        self.thread.join(timeout=60)


def publish_again(database):
    """Of a daemon that is not there: any trial of the key becomes its record, so that the config is another one."""
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as store:
        store.execute("INSERT INTO record (trial_id, default_latency_ns, tie_count, published_unix_ms, artifact) "
                      "SELECT id, 0.0, 0, ?, '' FROM trial WHERE outcome = 1 AND latency_ns_median > 0 "
                      "ORDER BY random() LIMIT 1", [int(time.time() * 1e3)])
        store.commit()


class RankTrials:
    """Jobs of many ranks: half of the nodes is the daemon's own host, the others read what a first rank fetched."""

    SWEEPS_EVERY = 20  # trials: one that lets a sweep end before the daemon is killed

    def __init__(self, build, folder, ranks, nodes):
        use_messages_of(build)
        os.environ["PYTHONPATH"] = str(ROOT / "client/python/src")
        self.folder, self.ranks, self.nodes = pathlib.Path(folder), ranks, nodes
        self.daemon = Daemon(build, self.folder / "state", "--job-deaths", 1000)
        # Not forked: a rank that finds nothing asks the daemon.
        self.pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count(),
                                                           mp_context=multiprocessing.get_context("spawn"))
        self.host = {"TUNE_ADDRESS": self.daemon.address, "TUNE_STATE_DIR": str(self.folder / "state"),
                     "TUNE_CACHE_DIR": f"{self.folder}/none"}

    def node(self, cache):
        return {**self.host, "TUNE_STATE_DIR": f"{self.folder}/none", "TUNE_CACHE_DIR": f"{self.folder}/{cache}"}

    def pin(self, instead_of=""):
        """The newest, by a new connection."""
        from tunectl import _rpc

        with _rpc.Connection(self.daemon.address, 30) as connection:
            if instead_of:
                connection.call("SnapshotService", "UnpinSnapshot", snapshot=instead_of)
            return connection.call("SnapshotService", "PinSnapshot", snapshot="", note="bench").digest

    def one(self, digest):
        """What the ranks of a job saw that pins this one, while the daemon is killed and started again."""
        seen = self.pool.submit(rank_answers, 1, digest, self.node("cache"), 30).result()
        environs = [self.host if node % 2 == 0 else self.node("cache") for node in range(self.nodes)]
        asked = [self.pool.submit(rank_answers, self.ranks // self.nodes, digest, one) for one in environs]
        time.sleep(random.uniform(0, 0.2))
        self.daemon.kill(signal.SIGKILL)
        publish_again(self.folder / "state/tune.db")
        self.daemon.start()
        for one in asked:
            seen |= one.result()
        self.daemon.await_listener()
        seen |= self.pool.submit(rank_answers, 1, digest, self.node("late"), 30).result()
        for cache in ("cache", "late"):
            shutil.rmtree(self.folder / cache)
        return seen

    def run(self, trials):
        """Of each trial the digest that was pinned and what its ranks saw; the publishes by sweeps; seconds."""
        results, seconds = [], []
        with self.pool:
            try:
                self.daemon.start()
                self.daemon.await_listener()
                with Publisher(self.daemon.address) as publisher:
                    publisher.wait_for(1)
                    digest = self.pin()
                    for trial in until_interrupted(trials):
                        began = time.monotonic()
                        results.append((digest, self.one(digest)))
                        if trial % self.SWEEPS_EVERY == 0:
                            publisher.wait_for(1)
                        digest = self.pin(instead_of=digest)
                        seconds.append(time.monotonic() - began)
            finally:
                self.daemon.kill(signal.SIGKILL)
        return results, publisher.count, seconds


def ranks(bench):
    """1024 ranks of eight nodes, publishes racing, the daemon killed and started again in the middle."""
    folder = bench.folder / "ranks"
    folder.mkdir()
    results, swept, seconds = RankTrials(bench.build, folder, 1024, 8).run(bench.trials)
    one = sum(len(seen) == 1 and next(iter(seen))[0] == digest for digest, seen in results)
    odd = [sorted(seen) for digest, seen in results if len(seen) != 1][:5]
    figure = {"ranks": 1024, "trials": len(results), "one_digest": one, "published_by_restarts": len(results),
              "published_by_sweeps": swept, "snapshots": len({digest for digest, _ in results}),
              "configs": len({config for _, seen in results for _, config in seen}), "odd": odd,
              "trial_seconds": spread(seconds), "seconds": sum(seconds)}
    return figure, (f"one digest in {one} of {len(results)} trials; {figure['snapshots']} snapshots, "
                    f"{figure['configs']} configs; {sum(seconds):.0f} s")
