# SPDX-License-Identifier: Apache-2.0
"""Why something answered or did not: each field of the key, of each record that came near."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ._answer import Answer
from ._kernel import Kernel, Problem
from ._lookup import Record
from ._reason import axis_position, bucket_of, driver_of
from ._snapshot import Snapshot


class Field(NamedTuple):
    """One field of the key, as asked for and as the record has it."""

    name: str  # "target", "seq"
    rule: str  # "hard": must be the same; "soft": may differ; a dim's own rule
    asked: object
    there: object
    verdict: str  # "same", "same bucket", "near", "ignored", "differs"


class Candidate(NamedTuple):
    record: int  # its number, as `tunectl record list` has it; 0: it came with tunectl
    fields: tuple[Field, ...]
    config_is_valid: bool  # for the problem that was asked for
    answers: bool  # this is the record that answered

    @property
    def blocked_by(self) -> list[str]:
        """Why it cannot be better than another device's or another source's; empty: it can."""
        return [field.name for field in self.fields if field.verdict == "differs"] + (
            [] if self.config_is_valid else ["config"])


class Explanation(NamedTuple):
    answer: Answer
    candidates: tuple[Candidate, ...]  # the most alike first

    def __str__(self) -> str:
        lines = [repr(self.answer), f"expected: {self.answer.expectation}"]
        for neighbour in self.answer.expectation.neighbours:
            dims = " ".join(f"{name}={value}" for name, value in neighbour.dims.items())
            lines.append(f"    {dims:<32}weight {neighbour.weight:.0%}, loses {neighbour.loss:.1%} there")
        for candidate in self.candidates:
            mark = "answers" if candidate.answers else (
                "differs in " + ", ".join(candidate.blocked_by) if candidate.blocked_by else "farther")
            lines.append(f"{f'record {candidate.record}' if candidate.record else 'shipped record'}: {mark}")
            for field in candidate.fields:
                there = "" if field.verdict == "same" else f"  the record's {field.there}"
                lines.append(f"    {field.verdict:<12}{field.name} ({field.rule}) = {field.asked}{there}")
            if not candidate.config_is_valid:
                lines.append("    differs     config: not valid for this problem")
        return "\n".join(lines)


def _dim(name: str, rule: str, asked: int, there: int | None) -> Field:
    if asked == there:
        return Field(name, rule, asked, there, "same")
    if rule == "ignored":
        return Field(name, rule, asked, there, "ignored")
    if there is None or rule == "exact":
        return Field(name, rule, asked, there, "differs")
    low, high = bucket_of(asked)
    inside = rule == "bucketed" and low <= there <= high
    return Field(name, rule, asked, there, "same bucket" if inside else "near")


def _hard(name: str, asked: str, there: str | None) -> Field:
    return Field(name, "hard", asked, there, "same" if asked == there else "differs")


def _candidate(kernel: Kernel, answer: Answer, record: Record, snapshot: Snapshot) -> Candidate:
    hard: Mapping[str, Any] = record["hard"]
    fields = [_hard("kernel_hash", kernel.hash[:12], hard["kernel_hash"][:12]),
              _hard("target", answer.target, hard["target"]),
              _hard("device", answer.device, hard["device"]),
              _hard("dtype", answer.dtype, hard["dtype"])]
    if kernel.include_digest:
        fields.append(_hard("include_digest", kernel.include_digest[:12], hard.get("include_digest", "")[:12] or None))
    fields += [_dim(name, kernel.rules.get(name, "nearest"), asked, hard["dims"].get(name))
               for name, asked in answer.dims.items()]
    there = driver_of(record)
    if there:
        verdict = "ignored" if not answer.driver else "same" if answer.driver == there else "near"
        fields.append(Field("driver", "soft", answer.driver or "not known", there, verdict))
    fields.append(Field("cache_mode", "soft", "cold", hard["cache_mode"],
                        "same" if hard["cache_mode"] == "cold" else "near"))
    valid = kernel.is_valid(Problem(dict(answer.dims), answer.dtype),
                            snapshot.target(answer.target), record["config"])
    return Candidate(record["id"], tuple(fields), valid,
                     bool(answer.evidence) and record["evidence"] == answer.evidence)


def _unlikeness(candidate: Candidate) -> tuple[Any, ...]:
    distance = sum(abs(axis_position(int(str(field.asked))) - axis_position(int(str(field.there))))
                   for field in candidate.fields
                   if field.rule in ("nearest", "bucketed") and field.there is not None)
    return (not candidate.answers, len(candidate.blocked_by), distance, -candidate.record)


def explain(snapshot: Snapshot, answer: Answer, most: int) -> Explanation:
    """The answer with the `most` records of the kernel that are most like the question."""
    kernel = snapshot.kernel(answer.kernel)
    if kernel is None or not answer.dims:
        return Explanation(answer, ())
    candidates = [_candidate(kernel, answer, record, snapshot)
                  for record in snapshot.records_of(answer.kernel)]
    return Explanation(answer, tuple(sorted(candidates, key=_unlikeness)[:most]))
