# SPDX-License-Identifier: Apache-2.0
"""A tunerd that a study starts and kills, its certificates, and a client that submits sweeps of a small kernel."""
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    """A tunerd of our own, killed at the end."""

    def __init__(self, build, state, *flags, address=None, log=subprocess.DEVNULL):
        self.address = address or f"unix:{pathlib.Path(state).parent}/d.sock"
        self._command = [str(build / "bin/tunerd"), "--state-dir", str(state), "--listen", self.address,
                         "--log-level", "warn", *map(str, flags)]
        self._log = log
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)
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
        """Until what it does in the background after a start, the check of its store, is done."""
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            began = self.processor_seconds()
            time.sleep(1)
            if self.processor_seconds() - began < 0.05:
                return

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.kill()


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


def wait_for_listener(daemon, limit=600):
    ends = time.monotonic() + limit
    path = daemon.address.removeprefix("unix:")
    while time.monotonic() < ends:
        is_unix = path != daemon.address
        with socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET) as probe:
            place = path if is_unix else ("127.0.0.1", int(path.rpartition(":")[2]))
            if probe.connect_ex(place) == 0:
                return
        time.sleep(0.005)
    raise RuntimeError("the daemon does not listen")


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


def spread(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values), "count": len(values)}
