# SPDX-License-Identifier: Apache-2.0
"""What a grid function and heuristics of a script that runs are made of. Each is called once with numbers that note what is
done with them: `triton.cdiv(4096, META["BLOCK"])` is 64, and its text "ceil_div(4096, BLOCK)". A text is a candidate only:
whoever takes it checks that it gives the value of every config, as a branch or a library function may hide the rest."""
import operator


class Symbol(int):
    """A number with the expression that gives it."""

    def __new__(cls, value, text):
        made = super().__new__(cls, value)
        made.text = text
        return made

    __hash__ = int.__hash__

    def __neg__(self):
        return Symbol(-int(self), f"-({self.text})")


def text_of(value):
    return value.text if isinstance(value, Symbol) else repr(value)


def noted(function, sign):
    """A binary operator; its result is a plain number unless that is an int."""
    def forward(self, other):
        if not isinstance(other, int):
            return NotImplemented
        made = function(int(self), int(other))
        return Symbol(made, f"({text_of(self)} {sign} {text_of(other)})") if isinstance(made, int) else made

    def backward(self, other):
        if not isinstance(other, int):
            return NotImplemented
        made = function(int(other), int(self))
        return Symbol(made, f"({text_of(other)} {sign} {text_of(self)})") if isinstance(made, int) else made
    return forward, backward


for name, sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}.items():
    for prefix, method in zip(("__", "__r"), noted(getattr(operator, name), sign)):
        setattr(Symbol, f"{prefix}{name}__", method)
for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Symbol, f"__{name}__", noted(getattr(operator, name), sign)[0])


def cdiv(a, b):
    made = -(-int(a) // int(b))
    return Symbol(made, f"ceil_div({text_of(a)}, {text_of(b)})") if isinstance(a, Symbol) or isinstance(b, Symbol) else made


def next_power_of_2(n):
    made = 1 << max(0, int(n) - 1).bit_length()
    return Symbol(made, f"2 ** ceil(log2({text_of(n)}))") if isinstance(n, Symbol) else made


def as_symbols(values):
    """A config whose numbers note what is done with them."""
    return {name: Symbol(value, name) if type(value) is int else value for name, value in values.items()}


def listed(grid):
    return tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)


class Bound:
    """A launch for each of its configs. `grids`, `heuristics`: of each; `texts`: candidates by name, and of the grid's axes
    by number."""

    def __init__(self, grid, heuristics, values, configs):
        self.grids, self.heuristics, self.texts = [], [], {}
        for index, config in enumerate(configs or [{}]):
            try:
                made = self.bind(grid, heuristics, {**values, **config})
            except Exception:
                if index == 0:
                    raise
                made = (None, None)  # this config has no grid
            self.grids.append(made[0])
            self.heuristics.append(made[1])
        try:
            extents, found = self.bind(grid, heuristics, {**values, **as_symbols(configs[0] if configs else {})})
            candidates = {**dict(enumerate(extents)), **found}
            self.texts = {name: value.text for name, value in candidates.items() if isinstance(value, Symbol)}
        except Exception:  # what runs is the script's, and may not like such numbers
            pass

    @staticmethod
    def bind(grid, heuristics, whole):
        found = {}
        for name, function in heuristics.items():
            found[name] = whole[name] = function(whole)
        return listed(grid(whole) if callable(grid) else grid), found
