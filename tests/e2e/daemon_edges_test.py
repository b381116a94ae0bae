# SPDX-License-Identifier: Apache-2.0
"""What a daemon meets at its edges: strangers, signals, its log's reader, files where it listens."""
import fcntl
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import tunectl_kit

START_SECONDS = 120
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

SPEC = """name: "scale"
summary: "y = 3 x"
source: "scale.cu"
entry: "scale"
dims { name: "n" default_value: 4096 min: 1 max: 1048576 }
dtypes: "f32"
params { name: "THREADS" values: "[32, 64, 128, 512]" default_value: "64" }
params { name: "ITEMS" values: "range(1, 400)" default_value: "1" }
args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, THREADS * ITEMS)" block: "THREADS" }
work { flops: "n" bytes: "2 * n * dtype_bytes" peak: "f32" }
reference { entry: "scale_reference" dtype: "f64" launch { grid: "ceil_div(n, 64)" block: "64" } }
"""
SOURCE = """#ifdef TUNE_REFERENCE
extern "C" __global__ void scale_reference(const DTYPE* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 3.0 * x[i];
}
#else
extern "C" __global__ void scale(const DTYPE* x, DTYPE* y, int n) {
  for (int item = 0; item < ITEMS; ++item) {
    const int i = (blockIdx.x * ITEMS + item) * THREADS + threadIdx.x;
    if (i < n) y[i] = 3.0f * x[i];
  }
}
#endif
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class DaemonEdges(tunectl_kit.Tunectl):
    def setUp(self):
        super().setUp()
        self.env["TUNE_ADDRESS"] = f"unix:{self.path}/d.sock"
        self.log = self.path / "log"

    def make_certificate(self):
        subprocess.run(["openssl", "req", "-x509", *KEY, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.path / "s.key", "-out",
                        self.path / "s.pem"], check=True, capture_output=True)
        self.port = free_port()
        return ["--listen", f"127.0.0.1:{self.port}", "--tls-cert", self.path / "s.pem", "--tls-key",
                self.path / "s.key"]

    def spawn(self, *arguments, files=None, stderr=None):
        """The daemon's process, which may or may not come to serve."""
        def limit():
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        command = [tunectl_kit.BIN / "tunerd", "--listen", self.env["TUNE_ADDRESS"], *arguments]
        with open(self.log, "ab") as log:
            daemon = subprocess.Popen([str(part) for part in command], env=self.env, preexec_fn=limit,
                                      stdout=subprocess.DEVNULL, stderr=stderr if stderr is not None else log)

        def stop():
            daemon.kill()
            daemon.wait()

        self.addCleanup(stop)
        return daemon

    def answers(self, env=None):
        return subprocess.run(self.command("server", "status"), env=env or self.env, capture_output=True,
                              check=False, timeout=60).returncode == 0

    def start(self, *arguments, **options):
        daemon = self.spawn(*arguments, **options)
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            self.assertIsNone(daemon.poll(), self.log.read_text())
            self.assertLess(time.monotonic(), end, self.log.read_text())
            time.sleep(0.05)
        return daemon

    def client_of(self, name, role="submitter"):
        """The environment of a client by TLS with a token of that name."""
        token = self.path / f"{name}.token"
        self.run_tunectl("token", "create", name, "--role", role, "--out", token)
        return {**self.env, "TUNE_ADDRESS": f"localhost:{self.port}", "TUNE_TLS_CA": str(self.path / "s.pem"),
                "TUNE_TOKEN_FILE": str(token)}

    def await_true(self, condition, seconds=START_SECONDS):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)
        self.assertTrue(condition(), self.log.read_text())


class Strangers(DaemonEdges):
    def test_idle_connections_keep_nobody_out(self):
        self.start(*self.make_certificate(), files=512)
        alice = self.client_of("alice")
        self.assertTrue(self.answers(alice))
        strangers = []
        for _ in range(600):
            strangers.append(socket.create_connection(("127.0.0.1", self.port), 10))
        self.assertTrue(self.answers(), "at the unix socket")
        self.assertTrue(self.answers(alice), "by TLS, while they last")
        traffic = self.json_of("server", "status")["traffic"]
        self.assertLessEqual(traffic.get("stranger_connections", 0), traffic["stranger_connections_max"])
        self.assertGreater(traffic["shut_connections"], 0)
        self.assertLess(traffic["open_files"], traffic["open_files_max"] - 64, "files are kept back")
        for one in strangers:
            one.close()
        self.assertTrue(self.answers(alice), "by TLS, when they are gone")
        self.assertNotIn("Too many open files", self.log.read_text())

    def test_a_handshake_has_seconds(self):
        self.start(*self.make_certificate())
        with socket.create_connection(("127.0.0.1", self.port), 10) as stranger:
            stranger.settimeout(30)
            self.assertEqual(stranger.recv(1), b"", "the daemon ends it")

    def test_wrong_tokens_are_logged_and_slowed_down(self):
        self.start(*self.make_certificate())
        alice = self.client_of("alice")
        wrong = self.path / "wrong.token"
        wrong.write_text("tune_" + "0" * 64)
        wrong.chmod(0o600)
        mallory = {**alice, "TUNE_TOKEN_FILE": str(wrong)}
        begin = time.monotonic()
        for _ in range(16):
            self.assertFalse(self.answers(mallory))
        self.assertGreater(time.monotonic() - begin, 1, "the last ones wait")
        begin = time.monotonic()
        self.assertTrue(self.answers(alice), "a right token from the same host does not")
        traffic = self.json_of("server", "status")["traffic"]
        self.assertEqual(traffic["wrong_tokens"], 16)
        text = self.log.read_text()
        lines = [line for line in text.splitlines() if "refused" in line]
        self.assertIn("127.0.0.1", lines[0])
        self.assertIn("GetStatus", lines[0])
        self.assertLess(len(lines), 8, "not a line for each")
        self.assertNotIn("tune_000", text)


class Listening(DaemonEdges):
    def fails_to_start(self, *arguments):
        self.log.write_bytes(b"")
        daemon = self.spawn(*arguments)
        self.assertEqual(daemon.wait(START_SECONDS), 1)
        self.assertFalse((self.path / "state").exists(), "the state is not opened first")
        return self.log.read_text()

    def test_only_a_socket_is_replaced(self):
        where = self.path / "there"
        self.env["TUNE_ADDRESS"] = f"unix:{where}"
        target = self.path / "target"
        target.write_text("something dear")

        def kinds():
            yield "a file", lambda: where.write_text("something dear"), where.unlink
            yield "a FIFO", lambda: os.mkfifo(where), where.unlink
            yield "a symbolic link", lambda: where.symlink_to(target), where.unlink
            yield "a symbolic link", lambda: where.symlink_to(self.path / "nowhere"), where.unlink
            yield "a folder", where.mkdir, where.rmdir

        for kind, make, remove in kinds():
            with self.subTest(kind):
                make()
                before = os.lstat(where)
                text = self.fails_to_start()
                self.assertIn(kind, text)
                self.assertIn(str(where), text)
                self.assertEqual(os.lstat(where).st_ino, before.st_ino)
                remove()
        self.assertEqual(target.read_text(), "something dear")
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(where))
        self.assertTrue(stat.S_ISSOCK(os.lstat(where).st_mode))
        self.start()

    def test_the_address_that_fails_is_named(self):
        tls = self.make_certificate()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            text = self.fails_to_start(*tls, "--listen", place)
            self.assertIn(f"cannot listen on {place}: Address already in use", text)
            self.assertNotIn(str(self.port), text)

    def test_a_key_that_others_may_read_is_refused(self):
        tls = self.make_certificate()
        for mode in (0o644, 0o640, 0o604, 0o660):
            with self.subTest(oct(mode)):
                (self.path / "s.key").chmod(mode)
                self.assertIn("chmod 600", self.fails_to_start(*tls))
        (self.path / "s.key").chmod(0o600)
        self.start(*tls)
        (self.path / "s.key").chmod(0o644)
        problem = lambda: self.json_of("server", "status")["certificate"].get("problem", "")
        self.await_true(lambda: "chmod 600" in problem())
        (self.path / "s.key").chmod(0o600)
        self.await_true(lambda: problem() == "")


class Signals(DaemonEdges):
    ENDING = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO",
              "SIGPWR", "SIGXCPU", "SIGRTMIN")
    IGNORED = ("SIGPIPE", "SIGXFSZ", "SIGTTIN", "SIGTTOU", "SIGHUP")

    def runs(self):
        return self.json_of("job", "list")["jobs"][0]["state"] == "JOB_STATE_RUNNING"

    def test_none_is_a_death(self):
        self.start()
        (self.path / "scale.textproto").write_text(SPEC)  # of 1596 configs
        (self.path / "scale.cu").write_text(SOURCE)
        self.run_tunectl("sweep", self.path / "scale.textproto", "--device", "cpu", "--budget", "30min", "--detach")
        for name in self.ENDING:
            with self.subTest(name):
                daemon = self.restart()
                self.await_true(self.runs)
                daemon.send_signal(getattr(signal, name))
                self.assertEqual(daemon.wait(START_SECONDS), 0)
        daemon = self.restart()
        self.await_true(self.runs)  # it did not fail for deaths of the daemon
        for name in self.IGNORED:
            daemon.send_signal(getattr(signal, name))
        time.sleep(1)
        self.assertIsNone(daemon.poll())
        self.assertTrue(self.answers())

    def restart(self):
        """A daemon on the same state; the one of before is ended in order."""
        if self.running is not None and self.running.poll() is None:
            self.running.terminate()
            self.running.wait(START_SECONDS)
        self.running = super().start()
        return self.running

    running = None

    def start(self, *arguments, **options):
        self.running = super().start(*arguments, **options)
        return self.running

    def test_hangup_reads_certificates_again(self):
        daemon = self.start(*self.make_certificate())
        daemon.send_signal(signal.SIGHUP)
        self.await_true(lambda: "certificates are read again" in self.log.read_text())
        self.assertTrue(self.answers())


class Logs(DaemonEdges):
    def test_a_reader_that_stands_still_holds_up_nothing(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, 1031, 4096)  # F_SETPIPE_SZ: it is soon full
        daemon = self.start("--log-level", "debug", stderr=writer)
        os.close(writer)
        for i in range(60):  # each is logged
            self.run_tunectl("token", "create", f"t{i}", "--role", "reader")
            self.run_tunectl("token", "revoke", f"t{i}")
        self.assertTrue(self.answers())
        daemon.terminate()
        self.assertEqual(daemon.wait(START_SECONDS), 0)
        os.close(reader)

    def test_dropped_lines_are_counted(self):
        reader, writer = os.pipe()
        daemon = self.start(*self.make_certificate(), stderr=writer)
        os.close(writer)
        text = b""
        name = "x" * 60
        for _ in range(3):
            self.run_tunectl("token", "create", name, "--role", "reader")
            self.run_tunectl("token", "revoke", name)
        daemon.terminate()
        with os.fdopen(reader, "rb") as log:
            text = log.read()
        self.assertEqual(text.count(b"revoked token"), 3, "a reader that reads misses nothing")

    def test_json_throughout(self):
        self.start(*self.make_certificate(), "--log-json")
        for junk in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x00\x05hello", os.urandom(200)):
            with socket.create_connection(("127.0.0.1", self.port), 10) as stranger:
                stranger.sendall(junk)
                stranger.settimeout(30)
                try:
                    while stranger.recv(100):
                        pass
                except OSError:
                    pass
        self.await_true(lambda: "andshake" in self.log.read_text())
        for line in self.log.read_text().splitlines():
            self.assertEqual(set(json.loads(line)), {"time", "level", "message"}, line)

    def test_a_failed_start_is_json_too(self):
        self.env["TUNE_ADDRESS"] = "127.0.0.1:1"
        daemon = self.spawn("--log-json")
        self.assertEqual(daemon.wait(START_SECONDS), 1)
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.assertIn("--tls-cert", lines[-1]["message"])

    def test_operators_acts_are_logged(self):
        self.start()
        self.run_tunectl("snapshot", "pin")
        self.await_true(lambda: "PinSnapshot" in self.log.read_text())
        line = re.search(r".*PinSnapshot.*", self.log.read_text()).group()
        self.assertIn("an operator", line)
        self.assertIn("a unix socket", line)


if __name__ == "__main__":
    unittest.main()
