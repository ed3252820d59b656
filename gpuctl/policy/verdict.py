"""What a rule says about one thing: yes, no, or that the facts to know are missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one named rule, with its reason.

    `allowed` has three values: True, False, and None where nobody could say (no inventory, no
    measurement). None counts as a no wherever something would be changed, hence it is falsy, but
    it is reported apart: what is unknown today may be allowed once an inventory is connected.
    """

    allowed: bool | None
    rule: str
    reason: str

    @property
    def is_refusal(self) -> bool:
        """Whether the rule said no, on known facts."""
        return self.allowed is False

    @property
    def is_unknown(self) -> bool:
        """Whether the rule could not be judged."""
        return self.allowed is None


def decisive(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The first refusal, else the first unknown; None when every rule allows.

    A refusal outweighs an unknown that comes earlier: it holds whatever the missing fact is.
    """
    unknown: Verdict | None = None
    for verdict in verdicts:
        if verdict.is_refusal:
            return verdict
        if verdict.is_unknown and unknown is None:
            unknown = verdict
    return unknown
