#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sweeps kernels that attack the host, against a daemon of its own, and says which acts the walls held.

    bench/hostile/run.py --bin DIR/bin [--device cuda:0] [--out FILE.json] [GROUP ...]

DIR is an installation (tools/bundle.sh) or a build. Groups: those of the CPU device (files others processes
network memory worker reference next compile orphans sources) and, where --device names a GPU, gpu; all of them by
default. Nothing outside of a temporary folder is aimed at, every act stops by itself, and the network is the
loopback interface. README.md lists the acts. Exit code 1: an act got through.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import tenants
from ground import HERE, Ground, SWEEP_SECONDS

GPU_SWEEP_SECONDS = 480
# A sweep that is not done by then is cancelled, and has to end within this again.
PATIENCE_SECONDS = 3
# Characters that a terminal would take for a command.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclasses.dataclass
class Act:
    """How one act went. held: it did not do what it set out to do, and was told so in words."""
    group: str
    name: str
    held: bool
    outcome: str
    message: str


def names_of(spec):
    values = re.search(r'values: "\[".*?"\]"|values: "\[.*?\]"', spec.read_text(), re.S).group(0)
    return re.findall(r"'(\w+)'", values)


def judge_trial(group, name, trial):
    """What the act says of itself, or what its end says."""
    outcome = trial["outcome"].removeprefix("OUTCOME_").lower()
    message = trial.get("message", "")
    said = re.match(r"out\[0\] is (\d+),", message)
    # Anything else, say that it could not be loaded, means that the act was not tried.
    held = bool(message) and (outcome in ("faulted", "timed_out") or (said and int(said.group(1)) > 1))
    if name.startswith("forge_") and outcome == "ok":
        held, message = True, "it lied of itself alone"
    if said and int(said.group(1)) >= 1000:
        message = f"refused: {os.strerror(int(said.group(1)) - 1000)}"
    elif said:
        message = {1: "it got through", 2: "nothing came of it"}.get(int(said.group(1)), message)
    return Act(group, name, bool(held), outcome, message)


def together(ground, group):
    """All acts of a group in one process. None if some got through or ended it: look at each."""
    folder = ground.kernel_folder()
    spec = folder / f"{group}.textproto"
    names = [n for n in names_of(spec) if n != "all"]
    text = spec.read_text()
    only = re.sub(r'values: "\[\'all\'.*?"\]"', "values: \"['all']\"", text, flags=re.S)
    assert only != text
    spec.write_text(only)
    _, trials = ground.sweep(spec)
    spec.write_text(text)
    message = trials[0].get("message", "") if trials else ""
    said = re.match(r"out\[63\] is 1,.* 1 of 64 elements are wrong", message)
    found = ground.after()
    if not said or found:
        return None
    return [Act(group, name, True, "wrong_result", "refused, with the others in one process") for name in names]


def in_one_sweep(ground, group):
    """The acts of a group as variants of one sweep. None if one got through: look at each."""
    sweep, trials = ground.sweep(ground.kernel_folder() / f"{group}.textproto")
    shown = shown_text(ground)
    acts = {}
    for trial in trials:
        if trial.get("purpose") == "TRIAL_PURPOSE_SEARCH":
            name = next(iter(trial["config"].values()))
            acts[name] = judge_trial(group, name, trial)
    tried = set(acts) == set(names_of(HERE / "cpu" / f"{group}.textproto"))
    held = tried and sweep["state"] == "JOB_STATE_DONE" and all(act.held for act in acts.values())
    if ground.after() or not held or CONTROL.search(shown):
        return None
    return list(acts.values())


def one_by_one(ground, group):
    for name in names_of(HERE / "cpu" / f"{group}.textproto"):
        if name != "all":
            yield single(ground, group, name)


def single(ground, group, name, patience=SWEEP_SECONDS):
    folder = ground.kernel_folder()
    spec = folder / f"{group}.textproto"
    text = re.sub(r'values: "\[.*?\]"\n', f"values: \"['{name}']\"\n", spec.read_text(), flags=re.S)
    text = re.sub(r"default_value: \"'\w+'\"", f"default_value: \"'{name}'\"", text)
    spec.write_text(text)
    sweep, trials = ground.sweep(spec, patience=patience)
    if trials:
        act = judge_trial(group, name, trials[0])
    else:
        ended = sweep["state"] in ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED")
        act = Act(group, name, ended, sweep["state"], sweep.get("message", ""))
    if CONTROL.search(shown_text(ground)):
        act.held, act.message = False, "control characters reached the terminal: " + act.message
    found = ground.after()
    if found:
        act.held, act.message = False, "; ".join(found)
    return act


def shown_text(ground):
    """What a person is shown of the last sweeps."""
    listed = ground.tunectl("sweep", "list", "--json").stdout
    with contextlib.suppress(ValueError, KeyError, IndexError):
        newest = json.loads(listed)["sweeps"][0]["id"]
        shown = [ground.tunectl("trial", "list", "--sweep", newest), ground.tunectl("sweep", "watch", newest)]
        return "".join(done.stdout + done.stderr for done in shown)
    return ""


def mass(group):
    def run(ground):
        yield from together(ground, group) or one_by_one(ground, group)
    return run


def each(group):
    def run(ground):
        yield from in_one_sweep(ground, group) or one_by_one(ground, group)
    return run


def reference(ground):
    """The reference of a kernel acts; its variant does not."""
    sweep, trials = ground.sweep(ground.kernel_folder() / "reference.textproto")
    said = re.search(r"the reference (\d+)", trials[0].get("message", "")) if trials else None
    held = (int(said.group(1)) >= 1000) if said else sweep["state"] == "JOB_STATE_FAILED"
    found = ground.after()
    return [Act("reference", "truncate_store", held and not found, sweep["state"],
                "; ".join(found) or (f"refused: {os.strerror(int(said.group(1)) - 1000)}" if said and held
                                     else sweep.get("message", "")))]


def next_kernel(ground):
    """innocent.cu finds a mark if it runs in a process that another kernel has had."""
    ground.sweep(ground.kernel_folder() / "mark.textproto")
    found = ground.after()
    return [Act("next", "mark_the_worker", not found, "wrong_result",
                "; ".join(found) or "the next kernel had a process of its own")]


def spinning(ground):
    """Deaf to signals and endless: cancelling ends it."""
    sweep, trials = ground.sweep(ground.kernel_folder() / "spin.textproto", patience=PATIENCE_SECONDS)
    found = ground.after()
    ended = sweep["state"] in ("JOB_STATE_DONE", "JOB_STATE_CANCELLED")
    said = f"ended {sweep['cancel_seconds']:.1f} s after cancel" if "cancel_seconds" in sweep else (
        trials[0].get("message", "") if trials else "")
    return [Act("orphans", "spin", ended and not found, sweep["state"], "; ".join(found) or said)]


def orphans(ground):
    """The daemon is killed while a deaf kernel spins: no worker outlives it."""
    acts = spinning(ground)
    queued = json.loads(ground.tunectl("sweep", "--kernel", ground.kernel_folder() / "spin.textproto", "--device",
                                       ground.device, "--fresh", "--detach", "--json").stdout)["id"]
    for _ in range(200):
        scratch = ground.state / "scratch" / "cpu"
        running = [p for p in ground.processes_of_daemon() if p != ground.daemon.pid and
                   str(scratch).encode() in dict(ground.processes()).get(p, b"") and cpu_seconds(p) > 1]
        if running:
            break
        time.sleep(0.1)
    ground.daemon.kill()
    ground.daemon.wait()
    for _ in range(100):
        left = ground.processes_of_daemon() + ground.survivors()
        if not left:
            break
        time.sleep(0.1)
    for process in left:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
    ground.start()
    ground.tunectl("sweep", "cancel", queued)
    ground.plant_files()
    ground.before = ground.look()
    found = ground.after()
    if left:
        found.append(f"{len(left)} workers outlived the daemon")
    if not running:
        found.append("the kernel never spun")
    return [*acts, Act("orphans", "outlive_the_daemon", not found, "killed",
                       "; ".join(found) or "gone with the daemon")]


def cpu_seconds(pid):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0


TAIL = """
#if TUNE_REFERENCE
extern "C" __global__ void reference(int* out) { for (int i = 0; i < 64; ++i) out[i] = 0; }
#else
extern "C" __global__ void act(int* out) { for (int i = 0; i < 64; ++i) out[i] = i == 0 ? 7 : 0; }
#endif
"""


# Sources whose reading is hard on the reader, be it the daemon or the compiler; each of less than 1 MiB.
GENERATED = {
    "not_not_not": "#if " + "!" * 900_000 + "1\n#endif\n",
    "macro_chain": "".join(f"#define a{i} a{i + 1}\n" for i in range(45_000)) + "a0 Chained() { return 1; }\n",
    "chain_and_words": "".join(f"#define a{i} a{i + 1}\n" for i in range(5_000)) + "a0 " * 250_000 + "f();\n",
    "deep_conditions": "#if 0\n" * 60_000 + "#define N 1\n" * 20_000 + "#endif\n" * 60_000,
    "open_brackets": "int x = " + "(" * 900_000 + ";\n",
    "open_braces": "void f() " + "{" * 900_000 + "\n",
    "open_angles": "template " + "<" * 900_000 + ";\n",
    "long_line": "int x = 0" + " + 1" * 200_000 + ";\n",
    "many_functions": "".join(f"void f{i}();\n" for i in range(50_000)),
    "many_parameters": "void f(" + "int," * 200_000 + "int);\n",
    "raw_strings": "".join(f'const char* s{i} = R"x(y)x";\n' for i in range(25_000)),
    "many_errors_in_lines": "".join(f"oops{i};\n" for i in range(80_000)),
}


def compile_acts(ground):
    """Sources that attack their compiler. Each says in its first lines what must become of it."""
    for source in sorted((HERE / "compile").glob("*.cu")):
        yield compile_one(ground, source.stem, source.read_bytes())
    for name, text in GENERATED.items():
        yield compile_one(ground, name, b"// must: end\n" + text.encode(), patience=1)


def compile_one(ground, name, text, patience=PATIENCE_SECONDS):
    folder = ground.path / "compile"
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "compile/compile.textproto", folder)
    must = re.search(rb"^// must: (.*)", text, re.M).group(1).decode()
    for mark, value in ((b"@STATE@", self_bytes(ground.state)), (b"@OUTSIDE@", self_bytes(ground.outside))):
        text = text.replace(mark, value)
    # The reference stays harmless, so that the variant is what is judged.
    body = b"#if !TUNE_REFERENCE\n" + text + b"\n#endif\n" if must.startswith("end") else text
    (folder / "compile.cu").write_bytes(body + TAIL.encode())
    sweep, trials = ground.sweep(folder / "compile.textproto",
                                 patience=patience if must == "end" else SWEEP_SECONDS)
    outcome = trials[0]["outcome"].removeprefix("OUTCOME_").lower() if trials else sweep["state"]
    message = (trials[0].get("message", "") if trials else "") or sweep.get("message", "")
    if must == "be refused":
        held = outcome == "refused" or "does not compile" in message
    elif must == "end":
        held = "is 7" in message or outcome in (
            "refused", "invalid_config", "compile_failed", "compile_timeout", "JOB_STATE_CANCELLED")
    else:
        held = outcome == "compile_failed" or ("is 7" in message and must == "leave nothing")
    if ground.secret in message:
        held, message = False, "the message tells the key"
    shown = shown_text(ground) + (sweep.get("message", "") if sweep["state"] == "refused" else "")
    if CONTROL.search(shown):
        held, message = False, "control characters reached the terminal"
    if "cancel_seconds" in sweep:
        message = f"ended {sweep['cancel_seconds']:.1f} s after cancel"
    found = ground.after(innocent=must != "be refused")
    if found:
        held, message = False, "; ".join(found)
    return Act("compile", name, held, outcome, message)


def self_bytes(path):
    return str(path).encode()


# A GPU's heap and its printing have bounds of their own, and one act is only slow: these may do their
# worst and still be right.
HARMLESS_ON_GPU = {"none", "take_heap", "print_flood", "launch_more"}


def gpu(ground):
    """One sweep whose variants attack the GPU, but for one: it is found, and the others are told apart."""
    sweep, trials = ground.sweep(HERE / "gpu/gpu.textproto", patience=GPU_SWEEP_SECONDS)
    found = ground.after()
    acts = []
    for trial in trials:
        if trial.get("purpose") != "TRIAL_PURPOSE_SEARCH":
            continue
        name = next(iter(trial["config"].values()))
        outcome = trial["outcome"].removeprefix("OUTCOME_").lower()
        held = outcome == "ok" if name == "none" else name in HARMLESS_ON_GPU or (
            outcome != "ok" and bool(trial.get("message")))
        acts.append(Act("gpu", name, held and not found, outcome, "; ".join(found) or trial.get("message", "")))
    tried = {act.name for act in acts}
    acts += [Act("gpu", name, False, sweep["state"], f"not tried: {sweep.get('message', '')}")
             for name in names_of(HERE / "gpu/gpu.textproto") if name not in tried]
    return acts


CPU_GROUPS = {"files": mass("files"), "others": mass("others"), "processes": mass("processes"),
              "network": mass("network"), "memory": each("memory"), "worker": each("worker"),
              "reference": reference, "next": next_kernel, "compile": compile_acts, "orphans": orphans,
              "sources": tenants.sources}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--device", metavar="GPU", help="its id; adds the group gpu")
    parser.add_argument("--out", help="also write the JSON here")
    parser.add_argument("--daemon-flag", action="append", default=[], help="passed on to tunerd")
    parser.add_argument("groups", nargs="*")
    arguments = parser.parse_args()
    acts, peaks = [], {}
    groups = {**CPU_GROUPS, **({"gpu": gpu} if arguments.device else {})}
    for group in arguments.groups or groups:
        device = arguments.device if group == "gpu" else "cpu"
        with Ground(arguments.bin, device, arguments.daemon_flag) as ground:
            for act in groups[group](ground):
                acts.append(act)
                print(f"{'held   ' if act.held else 'THROUGH'} {act.group}.{act.name}: {act.outcome}: "
                      f"{' '.join(act.message.split())[:160]!r}", file=sys.stderr, flush=True)
            ground.read_peak()
            peaks[group] = ground.peak_bytes
    result = {"acts": [dataclasses.asdict(act) for act in acts], "held": sum(act.held for act in acts),
              "through": sum(not act.held for act in acts), "daemon_peak_bytes": peaks}
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text + "\n")
    return 1 if result["through"] else 0


if __name__ == "__main__":
    sys.exit(main())
