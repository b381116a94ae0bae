# SPDX-License-Identifier: Apache-2.0
"""Where run.py lets kernels attack: a daemon of its own, in a temporary folder, looked at from outside."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
# The daemon's memory may not exceed this under any act.
DAEMON_BYTES_MAX = 256 << 20
# The workers' folders may not exceed this after a sweep.
SCRATCH_BYTES_MAX = 256 << 20
BOMB_BYTES = 8 << 30
# Acts that run on end by themselves after so long.
LINGER_SECONDS = 60
SWEEP_SECONDS = 170
CANCEL_SECONDS = 10


class Ground:
    """A daemon with things worth taking around it, and who looks after them from outside."""

    def __init__(self, binaries, device="cpu", daemon_flags=()):
        self.bin = pathlib.Path(binaries).resolve()
        self.device = device
        self.daemon_flags = list(daemon_flags)
        self.nonce = uuid.uuid4().hex[:12]
        self.folder = tempfile.TemporaryDirectory(prefix="tune-hostile-")
        self.path = pathlib.Path(self.folder.name)
        self.state, self.outside, self.home = (self.path / n for n in ("state", "outside", "home"))
        self.address = f"unix:{self.path}/d.sock"
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.state), "XDG_RUNTIME_DIR": str(self.path),
                    "NO_COLOR": "1", "TUNE_ADDRESS": self.address, "HOME": str(self.home),
                    "AWS_SECRET_ACCESS_KEY": f"secret{self.nonce}", "TUNE_TOKEN": f"secret{self.nonce}"}
        self.daemon = None
        self.restarts = 0
        self.connections = 0
        self.peak_bytes = 0

    def __enter__(self):
        for folder in (self.state, self.outside, self.home):
            folder.mkdir(mode=0o700)
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.count_connections, daemon=True).start()
        self.start()
        self.plant()
        self.before = self.look()
        return self

    def __exit__(self, *_):
        if self.daemon.poll() is None:
            self.daemon.kill()
        self.daemon.wait()
        self.listener.close()
        for process in self.survivors() + self.processes_of_daemon():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.folder.cleanup()

    def count_connections(self):
        with contextlib.suppress(OSError):
            while True:
                self.listener.accept()[0].close()
                self.connections += 1

    def start(self):
        with open(self.path / "tunerd.log", "ab") as log:
            self.daemon = subprocess.Popen(
                [str(self.bin / "tunerd"), "--listen", self.address, *self.daemon_flags], env=self.env,
                stdout=log, stderr=log, cwd=self.path)
        for _ in range(200):
            if self.tunectl("server", "status").returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError("tunerd does not answer: " + (self.path / "tunerd.log").read_text()[-2000:])

    def plant(self):
        """After the daemon has made its folders."""
        self.secret = f"secret{self.nonce}"
        self.planted = [self.state / "tls.key", self.outside / "tls.key", self.home / ".netrc",
                        self.state / "scratch/tune-compile-cpu/9/victim.cu"]
        self.plant_files()
        os.mkfifo(self.state / "fifo")
        with contextlib.suppress(OSError):
            os.setxattr(self.state, "user.planted", b"1")
        wrong = self.innocent()  # there is something in the store to lose
        if wrong:
            raise RuntimeError(f"no sweep succeeds here, hostile or not: {wrong[0]}")

    def plant_files(self):
        """A daemon that starts empties its workers' folders."""
        for file in self.planted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"const char {self.secret}[] = \"{self.secret}\";\n")
            file.chmod(0o600)

    # --- the programs ---

    def tunectl(self, *arguments, timeout=SWEEP_SECONDS):
        return subprocess.run([str(self.bin / "tunectl"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, errors="surrogateescape", timeout=timeout,
                              check=False)

    def sweep(self, spec, *flags, patience=SWEEP_SECONDS):
        """The sweep as it ended, and its trials. What is not done in time is cancelled."""
        done = self.tunectl("sweep", "--kernel", spec, "--device", self.device, "--strategy", "exhaustive",
                            "--budget", "1000", "--fresh", "--detach", "--json", *flags)
        if done.returncode != 0:
            return {"state": "refused", "message": done.stderr}, []
        number = json.loads(done.stdout)["id"]
        cancelled = None
        started = time.monotonic()
        while True:
            listed = self.tunectl("sweep", "list", "--json")
            if listed.returncode != 0:
                return {"state": "lost", "message": listed.stderr}, []
            sweep = next(s for s in json.loads(listed.stdout)["sweeps"] if s["id"] == number)
            if sweep["state"] not in ("JOB_STATE_QUEUED", "JOB_STATE_WAITING", "JOB_STATE_RUNNING"):
                break
            if cancelled is None and time.monotonic() - started > patience:
                cancelled = time.monotonic()
                self.tunectl("sweep", "cancel", number)
            if cancelled is not None and time.monotonic() - cancelled > CANCEL_SECONDS:
                return {"state": "stuck", "message": f"not ended {CANCEL_SECONDS} s after cancel"}, []
            time.sleep(0.05)
        if cancelled is not None:
            sweep["cancel_seconds"] = time.monotonic() - cancelled
        trials = self.tunectl("trial", "list", "--sweep", number, "--json").stdout
        return sweep, json.loads(trials)["trials"]

    # --- looking from outside ---

    def look(self):
        """What no sweep may change."""
        pid = self.daemon.pid
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        libc = ctypes.CDLL(None)
        seen = {
            "daemon": pid,
            "daemon's priority": os.getpriority(os.PRIO_PROCESS, pid),
            "daemon's processors": sorted(os.sched_getaffinity(pid)),
            "daemon's scheduling": os.sched_getscheduler(pid),
            "daemon's i/o priority": libc.syscall(252, 1, pid) if os.uname().machine == "x86_64" else 0,
            "daemon's limits": [line for line in limits.splitlines() if "pending" not in line],
            "daemon's oom_score_adj": pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text(),
            "state folder": self.facts(self.state)[:3],
            "names in the state folder": sorted(p.name for p in self.state.iterdir()),
            "names outside": sorted(p.name for p in self.outside.iterdir()),
            "names at home": sorted(p.name for p in self.home.iterdir()),
            "store": self.facts(self.state / "tune.db")[:4],
            "store's magic": (self.state / "tune.db").read_bytes()[:16],
            "connections to the listener": self.connections,
            "files with our name": [p.name for d in ("/tmp", "/dev/shm") for p in pathlib.Path(d).iterdir()
                                    if self.nonce in p.name],
        }
        with contextlib.suppress(OSError):
            seen["attributes"] = os.listxattr(self.state)
        for file in self.planted:
            seen[str(file)] = (*self.facts(file), file.stat().st_mtime_ns, file.read_text())
        return seen

    @staticmethod
    def facts(path):
        info = path.stat()
        return [oct(info.st_mode), info.st_uid, info.st_gid, info.st_ino, info.st_size]

    def differences(self):
        """One line for each thing that is not as it was, or not within its bounds."""
        self.read_peak()
        found = []
        if self.daemon.poll() is not None:
            return [f"the daemon ended with {self.daemon.returncode}"]
        if self.daemon_state() == "T":
            found.append("the daemon was stopped")
            os.kill(self.daemon.pid, signal.SIGCONT)
        try:
            now = self.look()
        except OSError as error:
            return [*found, f"something is gone: {error}"]
        found += [f"{what}: {self.before[what]} became {now[what]}" for what in self.before
                  if what in now and now[what] != self.before[what]]
        size = (self.state / "tune.db").stat().st_size
        if size < 4096:
            found.append(f"the store has {size} bytes")
        if self.peak_bytes > DAEMON_BYTES_MAX:
            found.append(f"the daemon held {self.peak_bytes >> 20} MiB; {DAEMON_BYTES_MAX >> 20} are allowed")
        scratch = sum(p.lstat().st_size for p in (self.state / "scratch").rglob("*") if not p.is_dir())
        if scratch > SCRATCH_BYTES_MAX:
            found.append(f"{scratch >> 20} MiB were left in the workers' folders")
        for _ in range(60):  # an ended process is not gone at once
            left = self.survivors()
            if not left:
                break
            time.sleep(0.05)
        if left:
            found.append(f"{len(left)} processes outlived their sweep")
        astray = [p for p in self.children() if os.getpgid(p) == os.getpgid(self.daemon.pid)]
        if astray:
            found.append("a worker has joined the daemon's process group")
        return found

    def restore(self):
        """Puts right what got through, so that the next act is judged by itself."""
        for process in self.survivors():
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        self.daemon.kill()
        self.daemon.wait()
        self.restarts += 1
        for path in (self.state, self.outside, self.home):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o700)
        for folder in ("/tmp", "/dev/shm"):
            for path in pathlib.Path(folder).iterdir():
                if self.nonce in path.name:
                    path.unlink()
        self.peak_bytes = 0
        self.start()
        self.plant()
        self.before = self.look()

    def daemon_state(self):
        return pathlib.Path(f"/proc/{self.daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def read_peak(self):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
            found = re.search(r"VmHWM:\s*(\d+) kB", status)
            if found:
                self.peak_bytes = max(self.peak_bytes, int(found.group(1)) << 10)

    @staticmethod
    def processes():
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    yield int(entry.name), (entry / "cmdline").read_bytes()

    def survivors(self):
        """Children of kernels: they call themselves so (attack.h)."""
        return [pid for pid, line in self.processes() if line.startswith(b"hostile!")]

    def processes_of_daemon(self):
        """Workers, whoever their parent is by now."""
        return [pid for pid, line in self.processes() if str(self.state).encode() in line]

    def children(self):
        found = []
        for pid, _ in self.processes():
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[1]) == self.daemon.pid and fields[0] != "Z":
                    found.append(pid)
        return found

    def innocent(self):
        """Why the next sweep, of another kernel, did not do well; empty if it did."""
        sweep, _ = self.sweep(HERE / "innocent.textproto")
        outcomes = sweep.get("progress", {}).get("outcomes", {})
        if sweep["state"] == "JOB_STATE_DONE" and outcomes == {"ok": 1}:
            return []
        return [f"the next sweep: {sweep['state']} {outcomes} {sweep.get('message', '')}"]

    def store_is_sound(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tune.db", "tune.db-wal"):
                if (self.state / name).exists():
                    shutil.copy(self.state / name, folder)
            with contextlib.closing(sqlite3.connect(f"{folder}/tune.db")) as store:
                return store.execute("PRAGMA integrity_check").fetchone()[0] == "ok"

    def memory_available(self):
        found = re.search(r"MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
        return int(found.group(1)) << 10

    # --- the acts ---

    def kernel_folder(self):
        """The sources, aimed at this ground."""
        folder = self.path / "kernels"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "cpu", folder)
        where = (folder / "where.h").read_text()
        bomb = min(BOMB_BYTES, self.memory_available() * 2 // 3)
        for name, value in {"STATE": f'"{self.state}"', "OUTSIDE": f'"{self.outside}"',
                            "HOME_DIR": f'"{self.home}"', "SOCKET": f'"{self.path}/d.sock"',
                            "NONCE": f'"{self.nonce}"', "SECRET": f'"{self.secret}"',
                            "DAEMON": self.daemon.pid, "LISTENER": self.listener.getsockname()[1],
                            "BOMB_BYTES": f"{bomb}ULL", "SECONDS": LINGER_SECONDS}.items():
            where, count = re.subn(rf"#define {name} .*", f"#define {name} {value}", where)
            assert count == 1, name
        (folder / "where.h").write_text(where)
        return folder

    def after(self, innocent=True):
        """What is wrong now; if anything is, everything is made new."""
        found = self.differences() or (innocent and (self.innocent() or self.differences()))
        if found:
            self.restore()
        return found or []
