# SPDX-License-Identifier: Apache-2.0
"""What both imports write into a spec: quoted texts, literals, names that a spec may have, and the marks of what is left
to write, which neither `kernel check` nor a sweep lets pass."""
import json
import math
import re

# Flags of tunectl, which no dim may have as its name, and what expressions know already.
RESERVED = set("""
address all alpha background base baseline best budget config count csv default delta0
detach device dtype folder fresh head help json junit kernel kernels markdown max prior
replay retune rev rounds samples seconds seed set strategy strict study svg sweep target
tolerance top trial version warm
sm sm_count dtype_bytes int float round abs min floor ceil sqrt log2 pow2 range ceil_div by_limit""".split())
TO_WRITE = "left_to_write"
MARKS_HERE = "# left to write"  # a line of a spec
MARKS_MAX = 96
DOC_MAX = 400
FUNCTIONS = {"int": int, "float": float, "round": round, "abs": abs, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
             "sqrt": math.sqrt, "log2": math.log2, "range": range, "ceil_div": lambda a, b: -(-a // b),
             "pow2": lambda n: 1 << max(0, int(n) - 1).bit_length()}


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


def marked(answer):
    """An answer whose spec has a constraint for each thing that is left to write, and no other: its expression names what
    no spec has. It goes when the thing is written."""
    name = f"{answer['name']}.textproto"
    spec, left = answer["files"][name], list(dict.fromkeys(answer["left"]))
    if not left:
        left = [f"'{line.strip()[:120]}': a part of it was not understood" for line in spec.split("\n") if TO_WRITE in line]
    if len(left) > MARKS_MAX:
        left[MARKS_MAX - 1:] = [f"{len(left) - MARKS_MAX + 1} more: {'; '.join(left[MARKS_MAX - 1:])}"]
    lines = [f"constraints {{ expression: {quoted(TO_WRITE)} doc: {quoted(text[:DOC_MAX])} }}" for text in left]
    lines = ["# Left to write. Delete each of these lines once it is done.", *lines] if lines else []
    files = {**answer["files"], name: spec.replace(MARKS_HERE + "\n", "".join(line + "\n" for line in lines), 1)}
    return {**answer, "files": files, "left": left}


def evaluated(text, names):
    """What an expression of a spec gives; None: it cannot be said."""
    try:
        return eval(text, {"__builtins__": {}, **FUNCTIONS, **names})  # a text of the import's own
    except Exception:  # whatever is in it
        return None
