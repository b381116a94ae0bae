#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the mistakes that docs/gate.md lists, one at a time, and expects a named test to see each.

  tools/mutations.py                  every one; builds and runs one test each (minutes)
  tools/mutations.py alpha signs      those whose names contain a word
  tools/mutations.py --check          applies nothing: sources, tests and the page's table agree

A mistake's place is found by its shape. Names and layout do not matter, so a rename breaks nothing
here. The tool edits the tree that it lies in, and puts every file back, also when interrupted. It
needs a configured build.
"""
import argparse
import pathlib
import re
import signal
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gate.md"


@dataclass
class Mutation:
    name: str     # as in the page's table
    file: str
    old: str      # its shape must be there exactly once: names and spacing may be others
    new: str
    program: str  # that has the test
    test: str     # Suite.Name, which must fail


GATE = "tuner/gate/gate.cc"
ROUND = "tuner/gate/round.cc"
RANK = "tuner/statistics/signed_rank.cc"
METRICS = "tuner/device/cuda/profiler_host.cc"
SERVICE = "server_gate_service_test"

MUTATIONS = [
    # The four of the design, and what they stand on.
    Mutation("alpha is not divided by the number of flagged kernels", GATE,
             "rules_.alpha / (slower ? slower_ : faster_)", "rules_.alpha",
             "gate_decision_test", "Gate.AlphaIsSharedByTheFlagged"),
    Mutation("alpha is not divided: seen in false failures", GATE,
             "rules_.alpha / (slower ? slower_ : faster_)", "rules_.alpha",
             "gate_characteristics_test", "FalseAlarms.WorstCaseKeepsThePromise"),
    Mutation("all rounds come from one pair of processes", "server/gate/gate_runner.cc",
             """Report(PhaseOf(stage), "", "what it does"); RETURN_IF_ERROR(bench_->Renew(/*pair=*/true));""",
             """Report(PhaseOf(stage), "", "what it does");
    if (round_ == 0) RETURN_IF_ERROR(bench_->Renew(/*pair=*/true));""",
             SERVICE, "GateServiceTest.EveryRoundIsTwoFreshProcessesThatAlternate"),
    Mutation("legs do not alternate", "server/gate/gate_rounds.cc",
             "order = {Side::kBase, Side::kHead, Side::kHead, Side::kBase}; if (mirrored)",
             "order = {Side::kBase, Side::kBase, Side::kHead, Side::kHead}; if (mirrored)",
             SERVICE, "GateServiceTest.EveryRoundIsTwoFreshProcessesThatAlternate"),
    Mutation("the order of legs is never mirrored", "server/gate/gate_rounds.cc",
             "const bool mirrored = (random_() & 1) != 0;", "const bool mirrored = false;",
             SERVICE, "GateServiceTest.EveryRoundIsTwoFreshProcessesThatAlternate"),
    Mutation("the screening's rounds count in the confirmation", GATE,
             "if (mean > tolerance) { kernel.direction = Direction::kSlower;",
             "if (mean > tolerance) { kernel.direction = Direction::kSlower;"
             " kernel.confirmed = kernel.screened;",
             "gate_decision_test", "Gate.TheScreeningCountsForNothingInTheConfirmation"),
    # The exact test and the intervals.
    Mutation("tied differences get ranks by order", RANK,
             "doubled[i] = begin + 1 + end;", "doubled[i] = 2 * (i + 1);",
             "gate_statistics_test", "SignedRank.AgreesWithBruteForceWithTiesAndZeros"),
    Mutation("differences of zero keep their ranks", RANK,
             "if (difference != 0) sizes.push_back(difference);", "sizes.push_back(difference);",
             "gate_statistics_test", "SignedRank.AgreesWithBruteForceWithTiesAndZeros"),
    Mutation("the tail of the test leaves out the observed sum", RANK,
             "i-- > sum;) tail", "i-- > sum + 1;) tail",
             "gate_statistics_test", "SignedRank.AgreesWithBruteForceUpTo12"),
    Mutation("Student's interval has a degree of freedom too many", "tuner/statistics/series.cc",
             "half = Reach95(values.size() - 1)", "half = Reach95(values.size())",
             "gate_statistics_test", "MeanInterval.ReachesAsFarAsStudentSays"),
    Mutation("the median's interval is a rank too narrow", "tuner/statistics/median.cc",
             "static_cast<size_t>(std::max(1.0, rank)) - 1;",
             "static_cast<size_t>(std::max(1.0, rank));",
             "gate_statistics_test", "MedianInterval.RanksOfTheTable"),
    Mutation("Clopper and Pearson's upper bound is of one trial more",
             "tuner/statistics/distributions.cc", "IncompleteBeta(good + 1, bad, p)",
             "IncompleteBeta(good + 1, bad + 1, p)",
             "gate_statistics_test", "ClopperPearson.KnownBounds"),
    # The decision's other rules.
    Mutation("the confirmation tests against no change, not the tolerance", GATE,
             "beyond.push_back(sign * round.log_ratio - tolerance);",
             "beyond.push_back(sign * round.log_ratio);",
             "gate_decision_test", "Gate.ExactlyTheToleranceIsNoFailure"),
    Mutation("fewer rounds than the least p needs", "tuner/gate/rules.cc",
             "static_cast<int>(least) + kForPower, kConfirmLeast", "static_cast<int>(least), 5",
             "gate_decision_test", "ConfirmRounds.AsThePageSays"),
    Mutation("what is slower in time alone fails", GATE,
             "const bool in_cycles = !cycles ||", "const bool in_cycles = true || !cycles ||",
             "gate_decision_test", "Gate.SlowerInTimeButNotInCyclesIsTheClock"),
    Mutation("noise beyond the promise passes", GATE,
             "judgement.deviation > rules_.guarded_deviation_max) { judgement.verdict",
             "judgement.deviation > 1e9) { judgement.verdict",
             "gate_decision_test", "Gate.TooMuchNoiseIsUnguarded"),
    Mutation("a wide interval passes", GATE,
             "judgement.ratio_high >= 1 + rules_.delta_max", "judgement.ratio >= 1 + rules_.delta_max",
             "gate_decision_test", "Gate.AWideIntervalIsInconclusive"),
    Mutation("an improvement is taken for a slowdown", GATE,
             "if (mean > tolerance) {", "if (mean > tolerance || mean < -tolerance) {",
             "gate_decision_test", "Gate.FasterIsReportedAndNeverFails"),
    Mutation("invalid rounds are replaced without end", GATE,
             "if (++kernel.invalid_rounds > kInvalidRoundsMax)",
             "if (++kernel.invalid_rounds > 9)",
             "gate_decision_test", "Gate.InvalidRoundsAreReplacedUpToALimit"),
    # What a device does wrong.
    Mutation("a throttled leg counts", ROUND,
             "(telemetry.throttle_reasons & kThrottleBits) != 0", "false",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/HardwareSlowdown"),
    Mutation("a foreign process goes unseen", ROUND,
             "telemetry.compute_processes > kOwnProcesses", "telemetry.compute_processes > 99",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/ForeignProcess"),
    Mutation("a clock that ramps goes unseen", ROUND,
             "difference > rules.clock_difference_max &&", "difference > 1 &&",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/ClockRamp"),
    Mutation("a zero time stamp is a time", ROUND,
             "return std::isfinite(ns) && ns > 0;", "return std::isfinite(ns) && ns >= 0;",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/ZeroTimestamp"),
    Mutation("a leg without records counts", ROUND,
             "if (leg.samples_ns.empty()) return", "if (leg.median_ns < 0) return",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/DroppedRecords"),
    Mutation("a missing leg goes unseen", ROUND,
             "base.legs == 0 || head.legs != base.legs", "base.legs == 0 || head.legs == 0",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/MissingLeg"),
    Mutation("two clocks are compared", ROUND,
             "if (leg.clock != legs.front().clock) {", "if (legs.empty()) {",
             "gate_round_test", "All/PlantedFault.InvalidatesTheRound/AnotherClock"),
    Mutation("a kernel that hangs is measured on", "server/gate/gate_rounds.cc",
             "outcome.fault = row.message; return false;", "return false;",
             SERVICE, "GateServiceTest.AKernelThatHangsIsInvalid"),
    # The names of counters. Needs a build with CUDA.
    Mutation("an unknown chip is taken for another", METRICS,
             "if (std::find(chips.begin(), chips.end(), chip) == chips.end()) {",
             "if (std::find(chips.begin(), chips.end(), chip) == chips.end()) chip = chips.back();\n"
             "  if (chips.empty()) {",
             "cuda_profiler_host_test", "ProfilerHostTest.AnUnknownChipIsRefused"),
    Mutation("an unknown counter takes its whole group along", METRICS,
             "if (alone.ok()) { kept.push_back", "if (alone.ok() && metrics.empty()) { kept.push_back",
             "cuda_profiler_host_test", "ProfilerHostTest.AnUnknownMetricIsLeftOutAlone"),
    Mutation("readings are taken in order, not by name", "tuner/device/cuda/metric_sets.cc",
             "return candidate.name == term.metric;", "return !candidate.name.empty();",
             "cuda_profiler_host_test", "MetricSets.QuantitiesAreSumsOverWhatWasRead"),
    Mutation("the default set has the tensor cores' operations too", "tuner/device/cuda/metric_sets.cc",
             "if (set == MetricSet::kTensor || set == MetricSet::kAll) {", "if (true) {",
             "cuda_profiler_host_test", "ProfilerHostTest.TheDefaultSetTakesTwoPassesOnServerChips"),
]


TEXT = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(rf"{TEXT}|\w+|[^\w\s]")
# Words of the language or its library. They are matched as they are.
FIXED = set("if for const bool return double int size_t static_cast std false true".split())


def is_name(token):
    return re.match(r"[A-Za-z_]", token) is not None and token not in FIXED


def shape_of(text):
    """A pattern of the text, and its groups by name. Every name and string is a group."""
    parts, groups = [], {}
    for token in TOKEN.findall(text):
        if token.startswith('"'):
            groups[token] = f"n{len(groups)}"
            parts.append(rf"(?P<{groups[token]}>{TEXT})")
        elif not is_name(token):
            parts.append(re.escape(token))
        elif token in groups:
            parts.append(rf"\b(?P={groups[token]})\b")
        else:
            groups[token] = f"n{len(groups)}"
            parts.append(rf"\b(?P<{groups[token]}>[A-Za-z_]\w*)\b")
    return re.compile(r"\s*".join(parts)), groups


def places(text, mutation):
    return list(shape_of(mutation.old)[0].finditer(text))


def mutated(text, mutation):
    """The text with the mistake, which keeps the text's own names."""
    found = places(text, mutation)[0]
    groups = shape_of(mutation.old)[1]
    new = re.sub(rf"{TEXT}|\w+", lambda m: found[groups[m[0]]] if m[0] in groups else m[0], mutation.new)
    return text[:found.start()] + new + text[found.end():]


def row_of(mutation):
    return f"| {mutation.name} | `{mutation.test}` |"


def faults():
    """What does not fit: a shape that is not there exactly once, a missing test, a stale table."""
    found = []
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
    page = PAGE.read_text()
    for mutation in MUTATIONS:
        count = len(places((ROOT / mutation.file).read_text(), mutation))
        if count != 1:
            found.append(f"{mutation.file}: {count} times instead of once: {mutation.old!r}")
        suite, name = mutation.test.split("/")[-1].split(".")[-1], mutation.test
        if name.startswith("All/"):
            missing = f'Fault{{"{suite}"' not in tests
        else:
            missing = re.search(r"\(" + r"\s*,\s*".join(name.split(".")) + r"\)", tests) is None
        if missing:
            found.append(f"no test {name}")
        if row_of(mutation) not in page:
            found.append(f"{PAGE.relative_to(ROOT)}: no row {row_of(mutation)}")
    rows = re.findall(r"^\| .* \| `[\w/]+\.[\w/]+` \|$", page, re.MULTILINE)
    listed = {row_of(mutation) for mutation in MUTATIONS}
    found += [f"{PAGE.relative_to(ROOT)}: no such mutation: {row}" for row in rows
              if row not in listed]
    return found


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def build(directory, program):
    return run("cmake", "--build", directory, "--target", program)


def programs_of(directory):
    """Tests of this build, by target."""
    return {path.name: path for path in (ROOT / directory / "tests").rglob("*_test")
            if path.is_file()}


def try_out(mutation, directory):
    """Empty if the test saw the mistake. Otherwise what happened instead."""
    path = ROOT / mutation.file
    text = path.read_text()
    path.write_text(mutated(text, mutation))
    try:
        built = build(directory, mutation.program)
        if built.returncode != 0:
            return "does not compile:\n" + built.stdout[-2000:]
        program = programs_of(directory)[mutation.program]
        done = run(str(program), f"--gtest_filter={mutation.test}")
        if "1 FAILED TEST" in done.stdout:
            return ""
        return "the test did not fail:\n" + done.stdout[-500:]
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutations whose names contain one")
    parser.add_argument("--check", action="store_true", help="apply nothing")
    parser.add_argument("--build", default="build/release", help="build folder")
    flags = parser.parse_args()
    wrong = faults()
    for fault in wrong:
        print(fault)
    if flags.check or wrong:
        return 1 if wrong else 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the file is put back
    unseen = 0
    touched = set()
    for mutation in MUTATIONS:
        if flags.words and not any(word in mutation.name for word in flags.words):
            continue
        if "cuda" in mutation.program and mutation.program not in programs_of(flags.build):
            print(f"not built  {mutation.name}", flush=True)
            continue
        what = try_out(mutation, flags.build)
        unseen += 1 if what else 0
        touched.add(mutation.program)
        print(f"{'UNSEEN' if what else 'seen  '}     {mutation.name}  ({mutation.test})",
              flush=True)
        if what:
            print(what)
    for program in sorted(touched):  # as it was
        build(flags.build, program)
    print(f"{unseen} not seen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
