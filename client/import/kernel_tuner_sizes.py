# SPDX-License-Identifier: Apache-2.0
"""Sizes that a spec would give any value, though a part of it has numbers that were computed from them. The script is read
again with other sizes: a size stays free if the call is then the same but for the size itself. If it is not (a number came
from a text, a condition, a length, a root), the spec gives the size the script's value alone."""
import re
import time

from script_reader import Unreadable
from spec_text import TO_WRITE

SECONDS_MAX = 6  # for all sizes of a call; one that was not tried has one value
RATIOS_MAX = 8
SIZE_MAX = 1 << 62


def others(value, ratios):
    """Sizes to try: smaller and larger ones, one with other divisors, and those at which a condition may turn."""
    turns = [int(value * ratio) + step for ratio in sorted(ratios)[:RATIOS_MAX] for step in (-1, 0, 1)]
    return [each for each in dict.fromkeys((2 * value, value + 1, 16 * value, max(1, value // 16), *turns))
            if each != value and 0 < each < SIZE_MAX]


def parts(made):
    """{what it is: the parts of a spec that a size may change}. Names of sizes stand for these."""
    return {**{f"arg {arg['name']}": arg for arg in made.args}, **{f"param {name}": values for name, values in made.params.items()},
            **{f"define {name}": text for name, text in made.defines.items()},
            **{f"the file {name}": text for name, text in made.files.items() if not name.endswith(".textproto")},
            "the launch": (made.grid, made.block, made.shared_bytes), "the constraints": (made.constraints, made.lets),
            "the entry": made.kernel, "the compiler's options": made.nvrtc_options}


def numbers(arg):
    """What a spec has for the shape or the value of an argument."""
    return arg.get("shape", arg.get("value"))


class DependentSizes:
    """The fourth of a Kernel Tuner import. `again`: reads the call with other sizes, {name: value}; None: it is not met.
    `read`: what reading makes of a call that was run, which `again` reads."""
    again = read = None

    def dependent_sizes(self, dims, fixed):
        """{name: ""} of dims that must keep their values, each with a note of what was computed from it."""
        found, end = {}, time.monotonic() + SECONDS_MAX
        read = self.read or self
        own, unread = parts(read), self.parts_of_the_run()
        for name, value in dims.items():
            if name in fixed or name in self.bare:
                continue
            what = unread or (self.computed_from(name, value, own, end) if self.again is not None else {})
            found.update((each, "") for each in {name: None, **what} if what and each in dims and each not in fixed)
            if what:
                self.notes.append(f"dim {name}: {', '.join(what)} may depend on its {value} in a way that no expression here "
                                  "says, so it has this value alone; see docs/coming-from.md")
        return found

    def parts_of_the_run(self):
        """{part: None} with numbers that a run gave and reading does not know: any size may be in them."""
        if self.read is None:
            return {}
        theirs = {arg["name"]: numbers(arg) for arg in self.read.args}
        found = {f"arg {arg['name']}": None for arg in self.args if theirs.get(arg["name"]) != numbers(arg)
                 and any(re.search(r"\d", text) for text in numbers(arg) if text != "1")}
        return {**found, **({"the launch": None} if self.read.grid != self.grid else {})}

    def computed_from(self, name, value, own, end):
        """{part of the spec, or other dim: None} that changes with a size by more than the size itself."""
        is_tried, read = False, self.read or self
        for other in others(value, self.reader.ratios):
            made = None if time.monotonic() > end else self.read_again(name, other)
            if made is None:
                continue
            theirs = parts(made)
            changed = {key: None for key in {**own, **theirs} if own.get(key) != theirs.get(key)}
            # Arrays that cannot have such a shape are not known: the script takes no such size.
            understood = {key: None for key in changed if TO_WRITE not in str(theirs.get(key))}
            if len(understood) < len(changed) and not understood:
                continue
            changed, is_tried = understood, True
            known, now = read.size_values(), made.size_values()
            # Another size that was computed from this one may change no more than this one may.
            changed.update((each, None) for each in read.sizes if each != name and known.get(each) != now.get(each))
            if changed:
                return changed
        return {} if is_tried else {"a part of the call": None}

    def read_again(self, name, value):
        try:
            return self.again({name: value})
        except (Unreadable, RecursionError):
            return None
