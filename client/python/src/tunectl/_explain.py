# SPDX-License-Identifier: Apache-2.0
"""Why something answered or did not: each field of the key, of each record that came near."""
from __future__ import annotations

from typing import Any, NamedTuple, Union

from ._answer import Answer

_NUMBERED = ("nearest", "exact", "bucketed", "ignored")  # the rules of dims, whose values are whole numbers


class Field(NamedTuple):
    """One field of the key, as asked for and as the record has it."""

    name: str  # "target", "seq"
    rule: str  # "hard": must be the same; "soft": may differ; a dim's own rule
    asked: Union[str, int]
    there: Union[str, int, None]
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


class _Facts(NamedTuple):
    answer: Answer
    candidates: tuple[Candidate, ...]  # the most alike first


class Explanation(_Facts):
    """The answer and the records that are most like the question. print() it."""

    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def _field(said: dict[str, Any]) -> Field:
    if said["rule"] in _NUMBERED:
        said = {**said, "asked": int(said["asked"]), "there": None if said["there"] is None else int(said["there"])}
    return Field(**said)


def explanation(answer: Answer, said: dict[str, Any]) -> Explanation:
    """said: as tune_explain_json has it."""
    whole = Explanation(answer, tuple(
        Candidate(one["record"], tuple(map(_field, one["fields"])), one["config_is_valid"], one["answers"])
        for one in said["candidates"]))
    whole.text = said["text"]
    return whole
