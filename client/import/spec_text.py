# SPDX-License-Identifier: Apache-2.0
"""What both imports write into a spec: quoted texts, literals, names that a spec may have, and the marks of what is left
to write, which neither `kernel check` nor a sweep lets pass."""
import json
import re

# Flags of tunectl, which no dim may have as its name, and what expressions know already.
RESERVED = set("""
address all alpha background base baseline best budget config count csv default delta0
detach device dtype folder fresh head help json junit kernel kernels markdown max prior
replay retune rev rounds samples seconds seed set strategy strict study svg sweep target
tolerance top trial version warm
sm sm_count dtype_bytes int float round abs min floor ceil sqrt log2 pow2 range ceil_div by_limit""".split())
TO_WRITE = "left_to_write"
MARKS_MAX = 96
DOC_MAX = 400


def quoted(text):
    return json.dumps(str(text))


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def ident_pattern(names):
    return re.compile(r"\b(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b")


def listed(values):
    """A param's values as an expression, a range where it is one: texts have at most 4096 characters."""
    text = f"[{', '.join(map(literal, values))}]"
    whole = len(values) > 8 and all(type(value) is int for value in values)
    step = values[1] - values[0] if whole else 0
    if step and list(range(values[0], values[-1] + (1 if step > 0 else -1), step)) == values:
        return f"range({values[0]}, {values[-1] + (1 if step > 0 else -1)}, {step})"
    return text


def marks(left):
    """A constraint for each thing that is left to write: its expression names what no spec has. It goes when the
    thing is written."""
    lines = []
    for text in list(dict.fromkeys(left))[:MARKS_MAX]:
        lines.append(f"constraints {{ expression: {quoted(TO_WRITE)} doc: {quoted(text[:DOC_MAX])} }}")
    return ["# Left to write. Delete each of these lines once it is done.", *lines] if lines else []
