"""Kubernetes label selectors: `app in (train, finetune), tier!=web, !debug`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
_VALUE = re.compile(rf"(?:{_NAME})?")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_KEY})\s*(==|=|!=)\s*([^,()=!]*)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_SEPARATOR = re.compile(r"\s*(,|$)\s*")

_Kind = Literal["in", "notin", "exists", "absent"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. As in Kubernetes, `notin` also holds where the key is absent."""

    key: str
    kind: _Kind
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it."""
        match self.kind:
            case "in":
                return labels.get(self.key) in self.values
            case "notin":
                return labels.get(self.key) not in self.values
            case "exists":
                return self.key in labels
            case "absent":
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all hold."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(one.holds(labels) for one in self.requirements)


@lru_cache(maxsize=256)
def parse_selector(text: str) -> Selector:
    """A selector in Kubernetes' syntax: `k`, `!k`, `k=v`, `k==v`, `k!=v`, `k in (a,b)`,
    `k notin (a,b)`, joined by commas.

    Raises ValueError, which names the part that is not understood. An empty selector is an error
    too: it would match everything.
    """
    rest = text.strip()
    if not rest:
        raise ValueError("the selector is empty; it would match every workload")
    found: list[Requirement] = []
    while True:
        requirement, rest = _next(rest, text)
        found.append(requirement)
        separator = _SEPARATOR.match(rest)
        if separator is None:
            raise ValueError(f"{text!r}: expected a comma before {rest.strip()!r}")
        rest = rest[separator.end() :]
        if not separator[1]:
            return Selector(tuple(found))


def _next(rest: str, text: str) -> tuple[Requirement, str]:
    if match := _SET.match(rest):
        kind: _Kind = "in" if match[2] == "in" else "notin"
        return Requirement(match[1], kind, _values(match[3], text)), rest[match.end() :]
    if match := _EQUAL.match(rest):
        kind = "notin" if match[2] == "!=" else "in"
        return Requirement(match[1], kind, _values(match[3], text)), rest[match.end() :]
    if match := _EXISTS.match(rest):
        kind = "absent" if match[1] else "exists"
        return Requirement(match[2], kind), rest[match.end() :]
    where = f"at {rest!r}" if rest else "after the last comma"
    raise ValueError(
        f"{text!r}: no condition {where}; "
        "write key, !key, key=value, key!=value, key in (a,b) or key notin (a,b)"
    )


def _values(text: str, whole: str) -> frozenset[str]:
    values = frozenset(value.strip() for value in text.split(","))
    for value in sorted(values):
        if not _VALUE.fullmatch(value):
            raise ValueError(f"{whole!r}: {value!r} can't be the value of a label")
    return values
