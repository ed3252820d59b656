"""A budget's numbers as an outlook: now, later, or never."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuctl.actions.budgets import outlook
from gpuctl.clients.kubernetes.meta import ObjectMeta
from gpuctl.clients.kubernetes.wire import Budget, BudgetStatus
from tests.actions.playing import NOON


def a_budget(allowed: int, healthy: int, demanded: int, expected: int, **more: object) -> Budget:
    return Budget(
        metadata=ObjectMeta(name="chat", namespace="prod", generation=1),
        status=BudgetStatus(
            disruptions_allowed=allowed,
            current_healthy=healthy,
            desired_healthy=demanded,
            expected_pods=expected,
            observed_generation=1,
            **more,  # type: ignore[arg-type]
        ),
    )


@pytest.mark.parametrize(
    ("budget", "hopeless", "chance"),
    [
        (a_budget(1, 3, 2, 3), False, "it allows an eviction now"),
        (a_budget(0, 1, 1, 1), True, "no eviction ever passes"),
        (a_budget(0, 2, 3, 3), True, "no eviction ever passes"),
        (a_budget(0, 2, 2, 4), False, "when 2 more pods are healthy"),
        (a_budget(0, 2, 2, 3), False, "when 1 more pod is healthy"),
        (a_budget(0, 2, 0, 0), True, "finds none"),
        (a_budget(0, 3, 2, 3), False, "about to change"),
    ],
)
def test_the_chance_follows_from_the_numbers(budget: Budget, hopeless: bool, chance: str) -> None:
    seen = outlook(budget, NOON)
    assert seen.is_hopeless is hopeless
    assert chance in seen.chance
    assert "budget chat demands" in seen.text


def test_a_booked_eviction_expires_after_two_minutes() -> None:
    booked = {"chat-a": NOON - timedelta(seconds=30), "old": NOON - timedelta(hours=1)}
    seen = outlook(a_budget(0, 2, 2, 3, disrupted_pods=booked), NOON)
    assert seen.next_at == NOON + timedelta(seconds=90)
    assert "12:01:30Z" in seen.chance


def test_numbers_of_an_older_text_are_no_numbers() -> None:
    budget = a_budget(1, 3, 2, 3)
    edited = Budget(metadata=ObjectMeta(name="chat", generation=2), status=budget.status)
    seen = outlook(edited, NOON)
    assert seen.allowed == 0
    assert not seen.is_hopeless
    assert "being counted" in seen.chance
