"""One eviction through policy/v1: what is sent, and what the answer means.

The order of the server's checks matters: rights, body, dry-run value, pod, budget, and only then
the precondition. So a refusal by a budget hides that the pod is another one, and an eviction that
fails on its precondition has already spent the budget for two minutes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpuctl.clients.faults import shortened
from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes.meta import Status
from gpuctl.clients.kubernetes.problems import (
    budget_cause,
    is_budget_refusal,
    retry_after,
    status_of,
)

_NUMBERS = re.compile(r"disruption budget (\S+) needs (\d+) healthy pods and has (\d+) currently")
_BUDGET_NAME = re.compile(r"disruption budget (\S+) ")
_NOT_PROCESSED = "still being processed"
_SEVERAL = "more than one PodDisruptionBudget"
#: How long an eviction that failed on its precondition holds the budget.
BURNT_BUDGET_SECONDS = 120.0


class EvictionResult(StrEnum):
    """What became of one eviction.

    - evicted: the pod was told to go; it is not gone yet
    - allowed: a dry run that passed; nothing happened
    - gone: there is no such pod any more
    - replaced: the pod of that name is another one; its budget may be spent for two minutes
    - budget: a disruption budget says no
    - budget-unsettled: a budget's numbers are not computed yet; wait for `retry_after_seconds`
    - several-budgets: more than one budget selects the pod; permanent until a person edits them
    - leaving: its namespace is being deleted, so the pod goes anyway
    - overloaded: the server protects itself and looked at nothing
    - busy: the server gave up updating the budget; later it may work
    """

    EVICTED = "evicted"
    ALLOWED = "allowed"
    GONE = "gone"
    REPLACED = "replaced"
    BUDGET = "budget"
    BUDGET_UNSETTLED = "budget-unsettled"
    SEVERAL_BUDGETS = "several-budgets"
    LEAVING = "leaving"
    OVERLOADED = "overloaded"
    BUSY = "busy"


_MAY_RETRY = frozenset(
    {
        EvictionResult.BUDGET,
        EvictionResult.BUDGET_UNSETTLED,
        EvictionResult.OVERLOADED,
        EvictionResult.BUSY,
    }
)


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """An answer that says something about the pod. `message` is the server's own text.

    `budget`, `needs` and `has` (healthy pods) are taken from that text, None where it names none.
    """

    result: EvictionResult
    status: int
    message: str
    dry_run: bool
    budget: str | None = None
    needs: int | None = None
    has: int | None = None
    retry_after_seconds: float | None = None

    @property
    def may_retry(self) -> bool:
        """Whether the same call can succeed later without anybody editing something."""
        return self.result in _MAY_RETRY


def eviction_body(
    namespace: str, name: str, *, uid: str, grace_period_seconds: int | None, dry_run: bool
) -> dict[str, Any]:
    """The Eviction. The dry run is asked for here and in the URL; either one is enough.

    Raises ValueError for a grace period under 1 s: with 0 the pod's object is gone at once while
    its containers still hold the GPU, which would then be handed out twice.
    """
    if grace_period_seconds is not None and grace_period_seconds < 1:
        raise ValueError("a grace period under 1s would hand out a GPU that is still in use")
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }


def eviction_query(*, dry_run: bool) -> tuple[tuple[str, str], ...]:
    """Strict: a misspelt field is an error, never a dry run that turns out to be real."""
    strict = ("fieldValidation", "Strict")
    return (("dryRun", "All"), strict) if dry_run else (strict,)


def eviction_answer(answer: Answer, *, dry_run: bool) -> EvictionAnswer | None:
    """What the answer says about the pod; None when it is an error of the caller or the server."""
    said = status_of(answer)
    result = _result(answer, said, dry_run=dry_run)
    if result is None:
        return None
    cause = budget_cause(said) if said else ""
    text = ": ".join(part for part in ((said.message if said else ""), cause) if part)
    numbers = _NUMBERS.search(cause)
    name = _BUDGET_NAME.search(cause)
    return EvictionAnswer(
        result=result,
        status=answer.status,
        message=shortened(text),
        dry_run=dry_run,
        budget=name[1] if name else None,
        needs=int(numbers[2]) if numbers else None,
        has=int(numbers[3]) if numbers else None,
        retry_after_seconds=retry_after(answer, said),
    )


def _result(answer: Answer, said: Status | None, *, dry_run: bool) -> EvictionResult | None:
    if 200 <= answer.status < 300:
        return EvictionResult.ALLOWED if dry_run else EvictionResult.EVICTED
    match answer.status:
        case 404 if said is not None:
            return EvictionResult.GONE
        case 409 if said is not None:
            return EvictionResult.REPLACED
        case 403 if said is not None and any(said.causes("NamespaceTerminating")):
            return EvictionResult.LEAVING
        case 429 if said is not None and is_budget_refusal(said):
            settles = _NOT_PROCESSED in budget_cause(said)
            return EvictionResult.BUDGET_UNSETTLED if settles else EvictionResult.BUDGET
        case 429:
            return EvictionResult.OVERLOADED
        case 500 if said is not None and _SEVERAL in said.message:
            return EvictionResult.SEVERAL_BUDGETS
        case 504 if said is not None:
            return EvictionResult.BUSY
    return None
