# SPDX-License-Identifier: Apache-2.0
"""What a snapshot says of a kernel: its problems, which of its configs are valid, its default."""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from ._dtypes import DTYPE_BYTES
from ._expression import Expression, ExpressionError, Value
from ._launch_sizes import LaunchSizes

Config = dict[str, Value]

# Configs that are looked at, where the default is not valid, before that is given up.
_SOUGHT_MAX = 20000
_GRID_MAX = (2147483647, 65535, 65535)
_BLOCK_MAX = (1024, 1024, 64)
_CLUSTER_MAX = 16
_FIRST_SM_WITH_CLUSTERS = 90


class Target(NamedTuple):
    """What a launch may ask of the devices of a target."""

    name: str  # "sm_90a", "cpu"
    is_host: bool
    sm: int
    sm_count: int
    max_threads_per_block: int
    max_shared_bytes: int


def target_named(name: str, known: Mapping[str, Mapping[str, Any]]) -> Target:
    """Of a target that no snapshot describes: what every architecture can give."""
    traits = known.get(name)
    if traits is not None:
        return Target(name, **traits)
    number = re.fullmatch(r"sm_(\d{2,4})[af]?", name)
    return Target(name, False, int(number.group(1)) if number else 0, 100, 1024, 49152)


def whole_number(dim: str, value: Any) -> int:
    """TypeError names the dim."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"dim '{dim}' is a whole number, not {value!r}") from None


class Problem(NamedTuple):
    dims: dict[str, int]  # in the spec's order
    dtype: str


class Launch(NamedTuple):
    """The geometry of one launch."""

    grid: tuple[int, int, int]  # blocks in x, y, z
    block: tuple[int, int, int]  # threads
    cluster: tuple[int, int, int]  # blocks
    shared_bytes: int  # dynamic shared memory


def _matches(pattern: str, target: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), target) is not None


def _same(left: Value, right: Value) -> bool:
    """1 and 1.0 are the same value of a list, True and 1 are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _identical(left: Value, right: Value) -> bool:
    return type(left) is type(right) and left == right


class _Rule(NamedTuple):
    """Something that holds for every valid config."""

    condition: Expression
    when: Optional[Expression] = None  # only where this is true
    text: str = "a limit of its launch"  # what a config breaks that it does not hold for

    def holds(self, scope: Mapping[str, Any]) -> bool:
        try:
            if self.when is not None and not self.when.evaluate(scope):
                return True
            return bool(self.condition.evaluate(scope))
        except ExpressionError:
            return False

    @property
    def names(self) -> frozenset[str]:
        return self.condition.names | (self.when.names if self.when is not None else frozenset())


class Kernel:
    """Immutable; expressions are parsed when they are first needed."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self.name: str = spec["name"]
        self.hash: str = spec["hash"]
        # Of the headers in its include roots, where it has some that are known.
        self.include_digest: str = str(spec.get("include_digest", ""))
        self.rules = {dim["name"]: dim["match"] for dim in spec["dims"]}
        self._expressions: dict[str, Expression] = {}
        self._rules_by_target: dict[Target, list[_Rule]] = {}

    def _expression(self, text: str) -> Expression:
        found = self._expressions.get(text)
        if found is None:
            found = self._expressions[text] = Expression(text)
        return found

    @property
    def args(self) -> list[Mapping[str, Any]]:
        """What a launch takes; empty in snapshots that older daemons wrote."""
        return [arg for arg in self._spec.get("args", []) if isinstance(arg, dict)]

    def shape(self, arg: Mapping[str, Any], problem: Problem, target: Target) -> tuple[int, ...]:
        """Of a buffer or symbol. ExpressionError."""
        scope = self._scope(problem, target, {})
        return tuple(operator.index(self._expression(text).evaluate(scope)) for text in arg["shape"])

    def dtype(self, arg: Mapping[str, Any], problem: Problem, target: Target) -> str:
        """Of a buffer or symbol. ExpressionError."""
        text = str(arg["dtype"])
        if text in DTYPE_BYTES:
            return text
        return str(self._expression(text).evaluate(self._scope(problem, target, {})))

    def why_not_on(self, target: Target) -> str:
        """A sentence about a target that the kernel does not run on; empty: it does."""
        if target.is_host and not self._spec["on_host"]:
            return f"kernel '{self.name}' is written for GPUs and does not run on {target.name}"
        patterns = self._spec["targets"]
        if patterns and not any(_matches(pattern, target.name) for pattern in patterns):
            return f"kernel '{self.name}' does not run on {target.name}; it runs on {', '.join(patterns)}"
        return ""

    def problem(self, dims: Mapping[str, int], dtype: str, target: Target) -> Problem:
        """What is not given takes the defaults. ValueError names the dims there are, the bounds."""
        dtype = dtype or self._spec["dtypes"][0]
        if dtype not in self._spec["dtypes"]:
            raise ValueError(f"kernel '{self.name}' is not written for '{dtype}'; it takes "
                             f"{', '.join(self._spec['dtypes'])}")
        unknown = [name for name in dims if name not in self.rules]
        if unknown:
            raise ValueError(f"kernel '{self.name}' has no dim '{unknown[0]}'; its dims are "
                             f"{', '.join(self.rules)}")
        values: dict[str, int] = {}
        for dim in self._spec["dims"]:
            name = dim["name"]
            value = dims.get(name)
            values[name] = self._default_of(dim, target) if value is None else whole_number(name, value)
            self._check(dim, values[name])
        return Problem(values, dtype)

    @staticmethod
    def _default_of(dim: Mapping[str, Any], target: Target) -> int:
        for pattern, value in dim["on"]:
            if _matches(pattern, target.name):
                return int(value)
        return int(dim["default"])

    @staticmethod
    def _check(dim: Mapping[str, Any], value: int) -> None:
        if dim["values"] and value not in dim["values"]:
            raise ValueError(f"dim '{dim['name']}' is one of "
                             f"{', '.join(map(str, dim['values']))}, not {value}")
        if not dim["min"] <= value <= dim["max"]:
            raise ValueError(f"dim '{dim['name']}' goes from {dim['min']} to {dim['max']}, "
                             f"not {value}")

    @staticmethod
    def _constants(problem: Problem, target: Target) -> dict[str, Any]:
        return {**problem.dims, "dtype": problem.dtype,
                "dtype_bytes": DTYPE_BYTES.get(problem.dtype, 0),
                "target": target.name, "sm": target.sm, "sm_count": target.sm_count}

    def _scope(self, problem: Problem, target: Target, config: Mapping[str, Value]) -> dict[str, Any]:
        scope: dict[str, Any] = {**self._constants(problem, target), **config}
        for name, text in self._spec["lets"]:
            try:
                scope[name] = self._expression(text).evaluate(scope)
            except ExpressionError:
                pass  # an error only where it is used
        return scope

    def _choices(self, problem: Problem, target: Target) -> dict[str, tuple[list[Value], Value]]:
        """The values and the default of each param."""
        scope = self._scope(problem, target, {})
        choices: dict[str, tuple[list[Value], Value]] = {}
        for param in self._spec["params"]:
            choice = next(one for one in param["choices"] if _matches(one["target"], target.name))
            values = self._expression(choice["values"]).evaluate(scope)
            wanted = self._expression(choice["default"]).evaluate(scope)
            defaults = [value for value in values if _same(value, wanted)]
            if not defaults:
                raise ExpressionError(f"the default of {param['name']} is not one of its values")
            choices[param["name"]] = (values, defaults[0])
        return choices

    def _axis_rules(self, axes: list[str], most: tuple[int, int, int],
                    when: Optional[Expression]) -> Iterator[_Rule]:
        for axis, limit in zip(axes, most):
            yield _Rule(Expression(f"1 <= ({axis}) <= {limit} and ({axis}) % 1 == 0"), when)

    def _launch_rules(self, step: Mapping[str, Any], target: Target) -> Iterator[_Rule]:
        """What a step's launch needs to be possible. Of a step that is left out nothing."""
        when = self._expression(step["when"]) if step["when"] else None
        yield from self._axis_rules(step["grid"], _GRID_MAX, when)
        yield from self._axis_rules(step["block"], _BLOCK_MAX, when)
        if step["block"]:  # a compiler of another language chooses it
            threads = " * ".join(f"({axis})" for axis in step["block"])
            yield _Rule(Expression(f"{threads} <= {target.max_threads_per_block}"), when)
        if step["shared_bytes"]:
            yield _Rule(Expression(f"0 <= ({step['shared_bytes']}) <= {target.max_shared_bytes}"), when)
        if step["cluster"]:
            yield from self._cluster_rules(step, target, when)

    def _cluster_rules(self, step: Mapping[str, Any], target: Target,
                       when: Optional[Expression]) -> Iterator[_Rule]:
        most = _CLUSTER_MAX if target.sm >= _FIRST_SM_WITH_CLUSTERS else 1
        yield from self._axis_rules(step["cluster"], (_CLUSTER_MAX,) * 3, when)
        blocks = " * ".join(f"({axis})" for axis in step["cluster"])
        yield _Rule(Expression(f"{blocks} <= {most}"), when)
        grid = step["grid"] + ["1"] * (3 - len(step["grid"]))
        for extent, axis in zip(grid, step["cluster"]):
            yield _Rule(Expression(f"({extent}) % ({axis}) == 0"), when)

    def _rules(self, target: Target) -> list[_Rule]:
        known = self._rules_by_target.get(target)
        if known is not None:
            return known
        rules = [_Rule(self._expression(text), text=f"'{text}'") for text in self._spec["constraints"]]
        steps = self._spec["steps"]
        for step in steps:
            rules += self._launch_rules(step, target)
        if all(step["when"] for step in steps):
            rules.append(_Rule(Expression(" or ".join(f"({step['when']})" for step in steps))))
        self._rules_by_target[target] = rules
        return rules

    def is_valid(self, problem: Problem, target: Target, config: Mapping[str, Value]) -> bool:
        """Is the config one of the space of a problem?"""
        try:
            choices = self._choices(problem, target)
            if list(config) != list(choices):
                return False
            for name, (values, _) in choices.items():
                if not any(_identical(value, config[name]) for value in values):
                    return False
            scope = self._scope(problem, target, config)
            return all(rule.holds(scope) for rule in self._rules(target))
        except ExpressionError:
            return False

    def launches(self, problem: Problem, target: Target, config: Mapping[str, Value]) -> tuple[Launch, ...]:
        """What a config launches, in the order it runs; empty where only the compiler knows."""
        steps = self._spec["steps"]
        if not all(step["block"] for step in steps):
            return ()
        scope = self._scope(problem, target, config)

        def number(text: str) -> int:
            return int(self._expression(text).evaluate(scope))

        def axes(texts: list[str]) -> tuple[int, int, int]:
            x, y, z = [*map(number, texts), 1, 1, 1][:3]
            return x, y, z

        try:
            run = [step for step in steps
                   if not step["when"] or self._expression(step["when"]).evaluate(scope)]
            return tuple(Launch(axes(step["grid"]), axes(step["block"]), axes(step["cluster"]),
                                number(step["shared_bytes"] or "0")) for step in run)
        except (ExpressionError, TypeError, ValueError, OverflowError):
            return ()

    def blocks_of(self, problem: Problem, target: Target) -> Callable[[Mapping[str, Value]], int]:
        """How many blocks a config has at the problem; 0: not known. Worked out when the first is asked for."""
        sizes: list[LaunchSizes] = []

        def blocks(config: Mapping[str, Value]) -> int:
            if not sizes:
                sizes.append(LaunchSizes(self._spec, self._constants(problem, target), self._expression))
            return sizes[0].blocks(config)

        return blocks

    def safe_config(self, problem: Problem, target: Target) -> tuple[Optional[Config], str]:
        """The default, or some valid config where that is not valid; none and why there is none."""
        try:
            choices = self._choices(problem, target)
            rules = self._rules(target)
        except ExpressionError as error:
            return None, f"the spec of {self.name} cannot be read here: {error}"
        default = {name: choice[1] for name, choice in choices.items()}
        scope = self._scope(problem, target, default)
        broken = next((rule for rule in rules if not rule.holds(scope)), None)
        if broken is None:
            return default, "the kernel's default"
        config = self._seek(problem, target, choices, rules)
        if config is not None:
            return config, f"some valid config, since the kernel's default breaks {broken.text}"
        return None, f"the kernel's default breaks {broken.text}, and no other config was found"

    def _seek(self, problem: Problem, target: Target, choices: Mapping[str, tuple[list[Value], Value]],
              rules: list[_Rule]) -> Optional[Config]:
        """The first valid config in the order of params and values, defaults first."""
        names = list(choices)
        lets = {name: self._expression(text).names for name, text in self._spec["lets"]}

        def params_of(used: frozenset[str], left: int = 64) -> set[str]:
            found = {name for name in used if name in choices}
            for name in used & lets.keys():
                found |= params_of(lets[name], left - 1) if left else set(names)
            return found

        # Each rule is tried as soon as the last of its params has a value.
        due: list[list[_Rule]] = [[] for _ in range(len(names) + 1)]
        for rule in rules:
            places = [names.index(name) + 1 for name in params_of(rule.names)]
            due[max(places, default=0)].append(rule)
        tries = _SOUGHT_MAX

        def extend(config: Config) -> Optional[Config]:
            nonlocal tries
            tries -= 1
            scope = self._scope(problem, target, config)
            if tries < 0 or not all(rule.holds(scope) for rule in due[len(config)]):
                return None
            if len(config) == len(names):
                return config
            name = names[len(config)]
            values, default = choices[name]
            for value in [default, *(one for one in values if not _identical(one, default))]:
                found = extend({**config, name: value})
                if found is not None:
                    return found
            return None

        return extend({})
