"""What a disruption budget's numbers mean for an eviction: now, later, or never."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuctl.clients.kubernetes.eviction import BURNT_BUDGET_SECONDS
from gpuctl.clients.kubernetes.wire import Budget
from gpuctl.model.outcome import DetailValue


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a budget lets a pod go.

    `text` names the budget with its numbers; `chance` says when the next eviction may pass.
    `is_hopeless`: no wait helps, a person has to scale something or edit the budget. `next_at` is
    set where the moment is known.
    """

    name: str
    text: str
    chance: str
    allowed: int
    is_hopeless: bool = False
    next_at: datetime | None = None
    detail: dict[str, DetailValue] | None = None


def outlook(budget: Budget, now: datetime) -> Outlook:
    """The outlook by the budget's numbers at `now`, for a pod that is healthy."""
    name, status = budget.metadata.name, budget.status
    if not budget.is_processed:
        return Outlook(name, f"budget {name} was just edited", "its numbers are being counted", 0)
    text = (
        f"budget {name} demands {status.desired_healthy} healthy pods and has "
        f"{status.current_healthy} of {status.expected_pods}"
    )
    detail: dict[str, DetailValue] = {
        "budget": name,
        "budget_allows": status.disruptions_allowed,
        "budget_healthy": status.current_healthy,
        "budget_demands": status.desired_healthy,
        "budget_expects": status.expected_pods,
    }
    chance, hopeless, at = _chance(budget, now)
    return Outlook(name, text, chance, status.disruptions_allowed, hopeless, at, detail)


def _chance(budget: Budget, now: datetime) -> tuple[str, bool, datetime | None]:
    status = budget.status
    if status.disruptions_allowed > 0:
        return "it allows an eviction now", False, now
    if status.expected_pods == 0:
        return (
            "it counts pods with a controller alone and finds none: it never allows any",
            True,
            None,
        )
    if status.expected_pods <= status.desired_healthy:
        return (
            "it demands every pod there is: no eviction ever passes; scale the owner up or edit "
            "the budget",
            True,
            None,
        )
    booked = [at + timedelta(seconds=BURNT_BUDGET_SECONDS) for at in status.disrupted_pods.values()]
    coming = [at for at in booked if at > now]
    if coming:
        at = min(coming)
        return f"the next chance is at {at:%H:%M:%SZ}, when a booked eviction expires", False, at
    missing = status.expected_pods - status.current_healthy
    if missing > 0:
        pods = "pod is" if missing == 1 else "pods are"
        return f"the next chance is when {missing} more {pods} healthy", False, None
    return "its numbers are about to change", False, None
