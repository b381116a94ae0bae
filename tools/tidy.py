#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules that a compiler cannot. Runs as the test `tidy`, or by hand from anywhere.

Prints `file:line: what is wrong` for each finding and exits 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 100
LINES = 600
FUNCTION_LINES = 70

# Folders whose includes no rule restricts.
FREE = ("tests/", "bench/", "examples/")
# Third-party headers with one home.
ONLY_IN = [
    (re.compile(r"<(cuda|nvrtc|cupti|nvml)[\w./]*>|\"(cuda|nvrtc|cupti\w*|nvml)\.h\""), "tuner/device/cuda"),
    (re.compile(r"[<\"]sqlite3\.h"), "db"),
]
# Mutexes are those of base/mutex.h, which clang checks, but for locks that are only tried and for spdlog's.
UNCHECKED_MUTEX = re.compile(r"\bstd::(shared_|recursive_|timed_)*mutex\b")
UNCHECKED_MUTEX_IN = ("base/mutex.h", "client/libtune/answer_table.h", "client/libtune/misses.cc", "server/log.cc")
# Devices are told apart by their profile alone (tuner/device_profile.h), never by names of targets
# or ids. Where names are made and read, and inside a kind of device, they are known.
DEVICE_NAME = r"""["'](?:cpu["']|cuda:|sm_)"""
DEVICE_COMPARISON = re.compile(
    rf"[=!]=\s*(?:std::string\()?{DEVICE_NAME}"
    rf"""|["'](?:cpu|cuda:\w*|sm_\w*)["']\s*[=!]="""
    rf"|(?:ConsumePrefix|StartsWith|StrContains|starts_with|startswith|compare|find)\([^\"']*{DEVICE_NAME}"
    rf"|\bin\s*[(\[{{]\s*{DEVICE_NAME}")
DEVICE_NAMES_KNOWN = ("tuner/device_profile.cc", "tuner/kernel/target.cc", "tuner/device/cpu/",
                      "tuner/device/cuda/", "tests/", "kernels/", "docs/", "tools/tidy.py")
# Words that open a comment without naming its subject, and how many lines of product code still do. Lower the
# number when comments are rewritten; never raise it.
BANNED_OPENING = re.compile(r"^\s*(?:///?|#|--|\*)\s*(?:What|Of|One|As|Those|Nothing|Where|Likewise|The same)\b")
BANNED_OPENINGS_MAX = 36
PRODUCT = ("base", "tuner", "lookup", "db", "server", "client", "apps", "proto", "kernels")
BANNED_NAME = re.compile(r"(^|_)(util|utils|common|misc|helper|helpers|manager)(_|\.|$)")
CODE = {".cc", ".h", ".cu", ".cuh"}
COMMENTED = CODE | {".proto", ".py"}


def tracked_files():
    """Files git knows or would add, as paths relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:  # an unpacked archive has no git
        return [p.relative_to(ROOT) for p in ROOT.rglob("*")
                if p.is_file() and not {"build", ".venv", ".git"} & set(p.relative_to(ROOT).parts)]
    return [pathlib.Path(line) for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def folder_table(text):
    """{folder: folders that its row of docs/architecture.md names}. "Every folder of X but Y" names those of the table."""
    rows = {}
    section = text.split("## Folders", 1)[-1].split("\n## ", 1)[0]
    for line in section.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        folder = re.fullmatch(r"`([\w/-]+)/`", cells[0])
        if folder and len(cells) == 3:
            rows[folder.group(1)] = cells[2]
    table = {}
    for folder, cell in rows.items():
        every = re.match(r"every folder of `([\w/-]+)/` but ((?:`[\w/-]+`)(?: and `[\w/-]+`)*)", cell)
        named = set(re.findall(r"`([\w/-]+)`", cell[every.end():] if every else cell))
        if every:
            left_out = set(re.findall(r"`([\w/-]+)`", every.group(2)))
            named |= {other for other in rows if other.startswith(every.group(1) + "/")} - left_out
        table[folder] = named
    return table


def may_include(table):
    """{folder: all folders it may include}. Those that its row names are passed on, but for `proto`."""
    closed = {}

    def close(folder):
        if folder not in closed:
            closed[folder] = set(table.get(folder, ()))
            for named in table.get(folder, ()):
                closed[folder] |= close(named) - {"proto"}
        return closed[folder]

    for folder in table:
        close(folder)
    return closed


def home_of(path, table):
    """The longest folder of the table in which a file or an include lies. Generated messages are `proto`'s."""
    if str(path).startswith(("tune/v1/", "tune/worker/", "grpc/reflection/")):
        return "proto"
    homes = [home for home in table if str(path).startswith(home + "/")]
    return max(homes, key=len, default=None)


def check_include(path, number, line, allowed, report):
    match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
    home = home_of(path, allowed)
    for pattern, only_home in ONLY_IN:
        if re.match(r"\s*#\s*include", line) and pattern.search(line) and home != only_home \
                and path.parts[0] not in ("kernels", "tests", "docs"):
            report(path, number, f"{line.strip()}: only {only_home} may include it")
    if not match or "/" not in match.group(1) or str(path).startswith(FREE):
        return
    target = home_of(match.group(1), allowed)
    if home is None:
        report(path, number, f"docs/architecture.md has no row for {path.parent}/")
    elif target is not None and target != home and target not in allowed[home]:
        report(path, number, f"{home} may not include {target} ({match.group(1)}): docs/architecture.md")


def find_cycle(graph):
    """Folders of which each includes the next, and the last the first. Empty if there are none."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return []
        path.append(folder)
        for next_folder in sorted(graph.get(folder, ())):
            cycle = visit(next_folder)
            if cycle:
                return cycle
        path.pop()
        done.add(folder)
        return []

    for folder in sorted(graph):
        cycle = visit(folder)
        if cycle:
            return cycle
    return []


def check_cycles(files, report):
    """Reports a folder that includes, through headers or sources, one that includes it."""
    tracked = {str(path) for path in files}
    graph, places = {}, {}
    for path in files:
        if path.suffix not in {".cc", ".h"} or path.parts[0] in ("tests", "bench"):
            continue
        folder = str(path.parent)
        for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+/[^"/]+)"', line)
            if not match or match.group(1) not in tracked:
                continue
            included = str(pathlib.PurePath(match.group(1)).parent)
            if included != folder:
                graph.setdefault(folder, set()).add(included)
                places.setdefault((folder, included), (path, number))
    cycle = find_cycle(graph)
    if not cycle:
        return
    edges = list(zip(cycle, cycle[1:] + cycle[:1]))
    path, number = places[edges[-1]]
    report(path, number, "folders include each other: " + ", ".join(
        f"{places[edge][0]}:{places[edge][1]} ({edge[0]} -> {edge[1]})" for edge in edges))


def check_functions(path, lines, report):
    """Reports functions that are too long, by a rough match of braces in column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and re.match(r"^(?!namespace|class|struct|enum|union|extern)\w.*\{\s*$", line) \
                and "=" not in line.split("(")[0]:
            start = number
        elif start is not None and line.startswith("}"):
            if number - start > FUNCTION_LINES:
                report(path, start, f"function of {number - start} lines; at most {FUNCTION_LINES}")
            start = None


def compares_devices(path, line):
    """Does a line of a source ask for a device or a target by its name?"""
    if path.suffix not in {".cc", ".h", ".py"} or str(path).startswith(DEVICE_NAMES_KNOWN):
        return False
    code = line.split("#" if path.suffix == ".py" else "//")[0]
    return DEVICE_COMPARISON.search(code) is not None


def has_unchecked_mutex(path, line):
    """Does a line of product code use a mutex that clang's thread safety analysis does not follow?"""
    if path.parts[0] not in PRODUCT or path.suffix not in {".cc", ".h"} or str(path) in UNCHECKED_MUTEX_IN:
        return False
    return UNCHECKED_MUTEX.search(line.split("//")[0]) is not None


def check_text(path, text, allowed, report):
    lines = text.split("\n")
    # A kernel to start from becomes its author's.
    of_users = "templates" in path.parts
    if path.suffix in COMMENTED and not of_users and not any("SPDX-License-Identifier" in line for line in lines[:3]):
        report(path, 1, "no SPDX line")
    for number, line in enumerate(lines, 1):
        if path.suffix in COMMENTED and len(line) > COLUMNS and "http" not in line and path.suffix != ".py":
            report(path, number, f"{len(line)} columns; at most {COLUMNS}")
        if line != line.rstrip() and path.suffix != ".md":
            report(path, number, "trailing space")
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line) and path.name != "tidy.py":
            report(path, number, "a marker without an issue number")
        if path.suffix in {".cc", ".h"}:
            check_include(path, number, line, allowed, report)
        if compares_devices(path, line):
            report(path, number, "a device told by its name; ask its profile, or `device list`")
        if has_unchecked_mutex(path, line):
            report(path, number, "a mutex that clang does not check; use base/mutex.h")
    if path.suffix in CODE and len(lines) > LINES + 1:
        report(path, 1, f"{len(lines)} lines; at most {LINES}")
    if path.suffix == ".cc":
        check_functions(path, lines, report)
    if path.suffix == ".md":
        fenced = re.sub(r"```.*?```", "", text, flags=re.S)
        if len(re.findall(r"^# ", fenced, flags=re.M)) != 1:
            report(path, 1, "a document has one title")


def check_tests_listed(files, report):
    lists = "".join((ROOT / f).read_text() for f in files if f.name == "CMakeLists.txt")
    for path in files:
        if path.parts[0] in ("tests", "bench") and path.suffix == ".cc" and path.name not in lists \
                and not path.name.endswith("_test.cc"):
            report(path, 1, "no CMakeLists.txt names it")


def banned_openings(files):
    """(file, line number) of each comment line of product code with a banned opening."""
    places = []
    for path in files:
        if path.parts[0] in PRODUCT and path.suffix in COMMENTED | {".txt", ".cmake", ".sql", ".sh"}:
            lines = (ROOT / path).read_text(encoding="utf-8").split("\n")
            places += [(path, number) for number, line in enumerate(lines, 1) if BANNED_OPENING.match(line)]
    return places


def check_openings(files, report):
    places = banned_openings(files)
    if len(places) > BANNED_OPENINGS_MAX:
        report(pathlib.Path("tools/tidy.py"), 1,
               f"{len(places)} comment lines of product code open with What, Of, One, As, Those, Nothing, Where, "
               f"Likewise or The same; at most {BANNED_OPENINGS_MAX}: give those of this change a subject")


def check_architecture(files, report):
    document = ROOT / "docs/architecture.md"
    text = document.read_text() if document.exists() else ""
    for folder in sorted({f.parts[0] for f in files if len(f.parts) > 1 and not f.parts[0].startswith(".")}):
        if f"{folder}/" not in text:
            report(pathlib.Path("docs/architecture.md"), 1, f"does not mention {folder}/")
    readme = (ROOT / "README.md").read_text().split("\n") if (ROOT / "README.md").exists() else []
    if len(readme) > 121:
        report(pathlib.Path("README.md"), 1, "over 120 lines")


def main():
    findings = []

    def report(path, number, message):
        findings.append(f"{path}:{number}: {message}")

    files = tracked_files()
    allowed = may_include(folder_table((ROOT / "docs/architecture.md").read_text(encoding="utf-8")))
    for path in files:
        if BANNED_NAME.search(path.name):
            report(path, 1, "a name that says nothing")
        if path.suffix in COMMENTED | {".md", ".txt", ".cmake", ".textproto", ".sql", ".sh"}:
            check_text(path, (ROOT / path).read_text(encoding="utf-8"), allowed, report)
    check_cycles(files, report)
    check_tests_listed(files, report)
    check_openings(files, report)
    check_architecture(files, report)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
