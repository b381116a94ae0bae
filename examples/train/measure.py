# SPDX-License-Identifier: Apache-2.0
"""Step times and loss curves of train.py, by turns: tuned and eager, each also compiled; on one rank and on several.

    python examples/train/tune.py && export TUNE_SNAPSHOT=$(tunectl snapshot pin)
    python examples/train/measure.py --out train.json --ranks 2

Each round runs every form once, in a process of its own. Ratios are of medians over the rounds. Exit code 1:
the curves are not the same but for noise, or something that was tuned was not launched.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import compare

TRAIN = pathlib.Path(__file__).with_name("train.py")
TUNED = ("tunectl", "tunectl-compile")
FORMS = (*TUNED, "eager", "compile")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nudges", type=int, default=3, help="runs that tell what noise alone does to the losses")
    parser.add_argument("--ranks", type=int, default=1, help="above 1: measures each form once on so many, too")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", default="", help="as train.py takes it")
    arguments = parser.parse_args()
    if not arguments.out.absolute().parent.is_dir():
        parser.error(f"--out {arguments.out}: there is no folder {arguments.out.absolute().parent}")
    if arguments.ranks > 1 and not os.environ.get("TUNE_SNAPSHOT"):
        parser.error("several ranks need TUNE_SNAPSHOT, which `tunectl snapshot pin` prints")
    return arguments


class Runner:
    def __init__(self, arguments, folder):
        self.flags = ["--steps", str(arguments.steps)] + (["--size", arguments.size] if arguments.size else [])
        self.out = pathlib.Path(folder) / "run.json"

    def run(self, form, *flags, ranks=1):
        """What train.py writes."""
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        command = [sys.executable, *launcher, str(TRAIN), "--ops", form, *self.flags, *flags, "--out", str(self.out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"OMP_NUM_THREADS": "1", **os.environ})
        result = compare.read(self.out)
        print(f"{form:15} {ranks} rank{'s' * (ranks > 1)} {' '.join(flags):10} {result['step_ms_median']:8.2f} ms a step, "
              f"loss {result['losses'][0]:.3f} to {result['losses'][-1]:.3f}", flush=True)
        return result


def times(runs):
    """By form: the median of the rounds, each round's, and those of the tuned forms as a part of it."""
    medians = {form: statistics.median(run["step_ms_median"] for run in of_form) for form, of_form in runs.items()}
    return {form: {"step_ms": medians[form], "rounds": [run["step_ms_median"] for run in runs[form]],
                   **{f"{tuned}_takes": medians[tuned] / medians[form] for tuned in TUNED if tuned in medians}}
            for form in runs}


def main():
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="train-") as folder:
        runner = Runner(arguments, folder)
        runs = {form: [] for form in arguments.forms}
        for _ in range(arguments.rounds):
            for form, of_form in runs.items():
                of_form.append(runner.run(form))
        eager = runs["eager"][0] if "eager" in runs else runner.run("eager")
        nudged = [runner.run("eager", "--nudge", str(seed)) for seed in range(1, arguments.nudges + 1)]
        together = {form: [runner.run(form, ranks=arguments.ranks)] for form in runs} if arguments.ranks > 1 else {}
    noise = max(compare.distance(one, eager) for one in nudged)
    apart = {form: compare.distance(of_form[0], eager) for form, of_form in runs.items() if form != "eager"}
    launched = [run for form in TUNED for all_of in (runs, together) for run in all_of.get(form, [])]
    result = {"device": eager["device"], "torch": eager["torch"], "snapshots": sorted({run["snapshot"] for run in launched}),
              "one_rank": times(runs), "ranks": arguments.ranks, "several_ranks": times(together), "noise": noise,
              "apart_from_eager": apart, "fallbacks": [run["fallbacks"] for run in launched if run["fallbacks"]],
              "losses": {form: of_form[0]["losses"] for form, of_form in runs.items()}}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for form, row in result["one_rank"].items():
        taken = "".join(f"; {tuned} takes {row[f'{tuned}_takes']:.3f} of it" for tuned in TUNED if f"{tuned}_takes" in row)
        print(f"{form:15} {row['step_ms']:8.2f} ms a step{taken}")
    print(f"apart from eager: {apart}; noise alone: {noise:.2e}; fallbacks: {result['fallbacks'] or 'none'}")
    same = all(compare.are_the_same(distance, noise) for distance in apart.values())
    return 0 if same and not result["fallbacks"] else 1


if __name__ == "__main__":
    sys.exit(main())
