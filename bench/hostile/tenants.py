# SPDX-License-Identifier: Apache-2.0
"""One submitter against another and against the operator: sources in Python, which run to be compiled or to
compute what is right. The daemon has one worker of each kind, so that both would come to the same process."""
import contextlib
import dataclasses
import pathlib
import re
import shutil
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent / "sources"
LANGUAGES_MISSING = ("no Python with NumPy", "no Python with Triton", "nothing compiles Triton")
RIGHT = "def right(x):\n    return 2.0 * x\n"
TRITON = """
import triton
import triton.language as tl


@triton.jit
def twice(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) * 2)
"""
TELL = """
through, tried = attempt_all()
raise RuntimeError(f"{len(through)} of {tried} got through: {', '.join(through)}.")
"""


@dataclasses.dataclass
class Act:
    """As run.Act."""
    group: str
    name: str
    held: bool
    outcome: str
    message: str


def serve_tenants(ground):
    """Starts the daemon anew, with a TLS port and tokens of mallory and alice, who are submitters."""
    folder = ground.path
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.pem"), "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(make, check=True, capture_output=True)
    (folder / "tls.key").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ground.daemon_flags += ["--listen", f"127.0.0.1:{port}", "--tls-cert", str(folder / "tls.pem"), "--tls-key",
                            str(folder / "tls.key"), "--compile-workers", "1"]
    ground.daemon.kill()
    ground.daemon.wait()
    ground.start()
    ground.plant_files()
    for name in ("mallory", "alice"):
        made = ground.tunectl("token", "create", name, "--role", "submitter", "--out", folder / f"{name}.token")
        assert made.returncode == 0, made.stderr
    ground.tenant_address = f"localhost:{port}"
    ground.before = ground.look()


@contextlib.contextmanager
def acting_as(ground, name):
    own = ground.env
    ground.env = {**own, "TUNE_ADDRESS": ground.tenant_address, "TUNE_TLS_CA": str(ground.path / "tls.pem"),
                  "TUNE_TOKEN_FILE": str(ground.path / f"{name}.token")}
    ground.env.pop("TUNE_TOKEN", None)
    try:
        yield
    finally:
        ground.env = own


def place(ground, spec, source, text):
    """A kernel's folder of its own, and the path of its spec. No text is used twice: nothing is found again."""
    folder = ground.path / "tenants"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(HERE / "twice.cu", folder)
    shutil.copy(HERE / spec, folder)
    (folder / source).write_text(f"# {time.monotonic_ns()}\n{text}")
    return folder / spec


def reference_of(ground, who, text):
    """How a sweep ended whose reference is this text."""
    spec = place(ground, "numpy.textproto", "reference.py", text)
    with acting_as(ground, who) if who else contextlib.nullcontext():
        sweep, trials = ground.sweep(spec)
    outcome = trials[0]["outcome"].removeprefix("OUTCOME_").lower() if trials else sweep["state"]
    return outcome, (trials[0].get("message", "") if trials else "") or sweep.get("message", "")


def check_of(ground, who, text):
    """What `kernel check` says of a kernel in Triton with this text."""
    spec = place(ground, "triton.textproto", "kernel.py", text)
    with acting_as(ground, who) if who else contextlib.nullcontext():
        done = ground.tunectl("kernel", "check", "--kernel", spec, "--target", "sm_90a")
    return ("ok" if done.returncode == 0 else "refused"), done.stdout + done.stderr


def acts_text(secret):
    return (HERE / "acts.py").read_text().replace("@SECRET@", secret[::-1])


def judge(ground, group, name, run, attack, innocent):
    """Runs `attack` as mallory, between two runs of `innocent` as alice and one as the operator."""
    secret = f"confidential-{ground.nonce}"
    first, said = run(ground, "alice", f"# {secret}\n{innocent}")
    if any(missing in said for missing in LANGUAGES_MISSING):
        return None
    outcome, message = run(ground, "mallory", attack)
    told = re.search(r"(\d+) of (\d+) got through: (.*)\.", message)
    found = []
    if first != "ok":
        found.append(f"alice's own, before: {first} {said}")
    if told and (int(told.group(1)) or not int(told.group(2))):
        found.append(f"through: {told.group(3)}")
    if secret in message:
        found.append("alice's source was told")
    if not told and "got through" in attack:
        found.append(f"not tried: {message}")
    for who in ("alice", None):
        after, said = run(ground, who, innocent)
        if after != "ok":
            found.append(f"{who or 'the operator'} afterwards: {after} {said}")
    found += ground.after(innocent=False)
    return Act(group, name, not found, outcome, "; ".join(found) or message or outcome)


def sources(ground):
    serve_tenants(ground)
    secret = f"confidential-{ground.nonce}"
    stay = (HERE / "stay.py").read_text()
    numpy = {
        "attempt_all": acts_text(secret) + TELL + RIGHT,
        "change_all": stay + "\n\ndef right(x):\n    stay()\n    junk()\n    return 2.0 * x\n",
        "leave_a_process": stay + "\n\ndef right(x):\n    linger()\n    return 2.0 * x\n",
        "end_by_signal": "import os\n\ndef right(x):\n    os.kill(os.getpid(), 9)\n",
        "end_its_group": "import os\n\ndef right(x):\n    os.kill(0, 9)\n",
        "say_nothing": "import os\n\ndef right(x):\n    os._exit(0)\n",
    }
    triton = {
        "attempt_all": acts_text(secret) + TELL + TRITON,
        "change_all": stay + "\nstay()\njunk()\n" + TRITON,
        "leave_a_process": stay + "\nlinger()\n" + TRITON,
        "end_its_group": "import os\nos.kill(0, 9)\n" + TRITON,
    }
    for group, run, attacks, innocent in (("numpy", reference_of, numpy, RIGHT), ("triton", check_of, triton, TRITON)):
        for name, attack in attacks.items():
            act = judge(ground, group, name, run, attack, innocent)
            if act is None:
                break
            yield act
