# SPDX-License-Identifier: Apache-2.0
"""What the scripts of bench/ share: a daemon of their own and `tunectl` beside it, the JSON file, the flags.

A `Daemon` is a tunerd that can be killed and started again on a state that the caller names. A `Service` is one with a
state of its own, which answers when the `with` block begins. A `Report` is a JSON file that is written after each figure,
so that a run that is stopped keeps what it has.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "client/python/src")]

KERNEL = "endurance"
DONE, ENDED = 3, (3, 4, 5)  # JobState: done; done, cancelled, failed
BACKGROUND = 2  # JobPriority
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


class Daemon:
    """A tunerd that is killed at the end."""

    def __init__(self, build, state, *flags, address=None, log=subprocess.DEVNULL, env=None):
        self.address = address or f"unix:{pathlib.Path(state).parent}/d.sock"
        self._command = [str(build / "bin/tunerd"), "--state-dir", str(state), "--listen", self.address,
                         "--log-level", "warn", *map(str, flags)]
        self._log, self._env = log, env
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, env=self._env)
        return self

    def kill(self, how=signal.SIGKILL):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=120)
            self.process = None

    def memory_mib(self):
        """What is resident, less files' pages that are the system's to drop; and these pages."""
        rows = dict(line.split(":", 1) for line in
                    pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        in_mib = {name: int(rows[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile", "VmHWM")}
        return {"own": in_mib["RssAnon"], "of_files": in_mib["RssFile"], "peak_in_all": in_mib["VmHWM"]}

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def await_idle(self, limit=120):
        """Until the check of its store, which follows a start, is done."""
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            began = self.processor_seconds()
            time.sleep(1)
            if self.processor_seconds() - began < 0.05:
                return

    def await_listener(self, limit=600):
        ends = time.monotonic() + limit
        path = self.address.removeprefix("unix:")
        is_unix = path != self.address
        while time.monotonic() < ends and self.process.poll() is None:
            with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
                if probe.connect_ex(path if is_unix else ("127.0.0.1", int(path.rpartition(":")[2]))) == 0:
                    return
            time.sleep(0.005)
        raise RuntimeError("the daemon does not listen")

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.kill()


class Service:
    """A daemon on a state of its own, and `tunectl` as its client. Without `daemon` each command starts its own."""

    def __init__(self, folder, device="cuda:0", daemon=True, flags=()):
        self.bin = pathlib.Path(folder).resolve()
        self.device = device
        self.state = tempfile.TemporaryDirectory(prefix="tune-bench-")
        self.env = {**os.environ, "TUNE_STATE_DIR": f"{self.state.name}/state", "XDG_RUNTIME_DIR": self.state.name,
                    "TUNE_CACHE_DIR": f"{self.state.name}/cache", "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)
        self.daemon = None
        if daemon:
            self.daemon = Daemon(self.bin.parent, f"{self.state.name}/state", "--triton-python", sys.executable, *flags,
                                 env=self.env)
            self.env["TUNE_ADDRESS"] = self.daemon.address

    def __enter__(self):
        if self.daemon:
            self.daemon.start().await_listener(60)
            self._await_device()
        return self

    def _await_device(self, limit=120):
        """On a busy host a worker takes its time to open a device."""
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            try:
                self.about_device()
                return
            except RuntimeError:
                time.sleep(0.5)

    def __exit__(self, *unused):
        if self.daemon:
            self.daemon.kill(signal.SIGTERM)
        self.state.cleanup()

    def text(self, *arguments, codes=(0,), timeout=900):
        """What `tunectl` prints. RuntimeError: it ended with another exit code."""
        done = subprocess.run([str(self.bin / "tunectl"), *map(str, arguments)], env=self.env, capture_output=True,
                              text=True, timeout=timeout, check=False)
        if codes is not None and done.returncode not in codes:
            raise RuntimeError(f"tunectl {' '.join(map(str, arguments))} gave {done.returncode}: "
                               f"{(done.stderr or done.stdout)[-2000:]}")
        return done.stdout

    def json(self, *arguments, **options):
        """Its JSON, and the seconds that it took."""
        began = time.monotonic()
        text = self.text(*arguments, **options)
        return {**(json.loads(text) if text.startswith("{") else {}), "wall_seconds": time.monotonic() - began}

    def sweep(self, kernel, dims=None, *flags, **options):
        return self.json("sweep", kernel, *flags_of(dims or {}), "--device", self.device, *flags, "--json", **options)

    def about_device(self):
        return self.json("device", "show", self.device, "--json")


ELLIPTIC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def certificates(folder, key=("rsa:2048",)):
    """An authority, a daemon's and a client's certificate; their files by name. `key`: what openssl makes."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=folder)

    openssl("req", "-x509", "-newkey", *key, "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", 2,
            "-subj", "/CN=bench")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("daemon", "client"):
        openssl("req", "-newkey", *key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
                f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.pem", "-days", 2, "-extfile", "names")
    return {name: folder / name for name in ("ca.pem", "daemon.pem", "daemon.key", "client.pem", "client.key")}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def use_messages_of(build):
    """Of a build tree; an installed package has its own."""
    built = pathlib.Path(build) / "python/tune.protoset"
    if built.exists():
        os.environ.setdefault("TUNE_PROTO_SET", str(built))


class Submitter:
    """Sweeps of a small kernel on the CPU device, by gRPC."""

    def __init__(self, address, seconds=3600):
        from tunectl import _rpc

        self.error = _rpc.DaemonError
        self.connection = _rpc.Connection(address, seconds)
        self.source = _rpc.message("KernelSource")(spec_name=f"{KERNEL}.textproto", spec_text=SPEC,
                                                   files={"scale.cu": SOURCE})

    def submit(self, key="", **fields):
        request = {"strategy": "exhaustive", "budget": {"seconds": 3600}, **fields}
        return self.connection.call("SweepService", "SubmitSweep", kernel_source=self.source, device="cpu", cache_mode=2,
                                    fresh=True, idempotency_key=key, **request).id

    def cancel(self, sweep):
        return self.connection.call("JobService", "CancelJob", job_id=self.get(sweep).job_id)

    def get(self, sweep):
        return self.connection.call("SweepService", "GetSweep", sweep_id=sweep)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.__exit__()


class Report:
    """Figures by name, and whatever else describes the run."""

    def __init__(self, path, go_on=True, **about):
        self.path = pathlib.Path(path)
        self.about = {"date": now(), "host": f"{os.cpu_count()} x {processor()}", **about}
        kept = go_on and self.path.exists()
        self.figures = json.loads(self.path.read_text())["figures"] if kept else {}

    def note(self, name, figure, text=""):
        self.figures[name] = figure
        beside = self.path.with_name(self.path.name + ".part")
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps({**self.about, "figures": self.figures}, indent=1) + "\n")
        beside.replace(self.path)
        print(f"{name}: {text or json.dumps(figure)[:2000]}", flush=True)

    def measure(self, name, function, again=False):
        """Whether the part succeeded, or is there. An error is noted, and the other parts go on."""
        if name in self.figures and not again and "error" not in self.figures[name]:
            print(f"{name}: in the file already", flush=True)
            return True
        began = time.monotonic()
        try:
            figure = function()
        except (OSError, RuntimeError, ValueError, LookupError, TypeError, ArithmeticError,
                subprocess.TimeoutExpired) as error:
            figure = {"error": f"{type(error).__name__}: {error}"[-2000:]}
        self.note(name, {**figure, "seconds": round(time.monotonic() - began, 1)},
                  figure.get("error", "") or figure.get("text", ""))
        return "error" not in figure and figure.get("passed", True)


def parser_for(doc, parts=(), device="cuda:0", out=True):
    """The flags of all studies."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="folder of the programs (%(default)s)")
    parser.add_argument("--device", default=device, help="device id (default '%(default)s')")
    if out:
        parser.add_argument("--out", required=True, help="JSON file, added to")
    if parts:
        parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[], metavar="PART",
                            help=f"of {' '.join(parts)}; default: all")
    return parser


def flags_of(dims):
    return [f"--{name}={value}" for name, value in dims.items()]


def config_text(config):
    """As tune::ToText has it."""
    return " ".join(f"{param}={value}" for param, value in config.items())


def outcome(trial):
    return trial["outcome"].removeprefix("OUTCOME_").lower()


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
