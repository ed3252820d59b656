"""How long a migration should take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.policy.migration.estimate import estimate
from tests.policy.migrating import DISK, facts

GIB = 1 << 30
STOPPED = {"status": "stopped"}


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [(1.1e9, 80), (2.5e9, 40)],
)
def test_64_gib_over_10_and_25_gbe(rate: float, seconds: float) -> None:
    found = estimate(facts(vm={"ram_mib": 65536}), rate_bytes=rate, dirty_bytes=0.1e9)
    assert found.copy_bytes == 64 * GIB
    assert found.seconds == pytest.approx(seconds, abs=6)
    assert found.converges is True


def test_a_small_vm_on_a_fast_network_is_mostly_set_up() -> None:
    found = estimate(facts(vm={"ram_mib": 4096}), rate_bytes=4e9)
    assert found.seconds == pytest.approx(11, abs=1)
    assert found.converges is None
    assert found.most_seconds is None


def test_a_guest_that_writes_as_fast_as_it_is_copied() -> None:
    never = estimate(facts(), rate_bytes=1e9, dirty_bytes=1.2e9)
    assert (never.seconds, never.pause_seconds, never.converges) == (None, None, False)
    barely = estimate(facts(), rate_bytes=1e9, dirty_bytes=0.9e9)
    assert barely.converges is False
    assert barely.pause_seconds is None
    assert barely.seconds is not None


def test_local_disks_are_copied_too() -> None:
    found = estimate(facts(verdict={"local_volumes": (DISK,)}), rate_bytes=GIB)
    assert found.copy_bytes == (64 + 32) * GIB
    assert found.seconds == pytest.approx(96 + 10)


def test_a_stopped_vm_copies_no_memory() -> None:
    found = estimate(facts(vm=STOPPED, verdict={"local_volumes": (DISK,)}), rate_bytes=GIB)
    assert found.copy_bytes == 32 * GIB
    assert found.seconds == pytest.approx(35)


def test_the_limit_counts_when_it_is_lower() -> None:
    assert estimate(facts(), rate_bytes=1e9, bwlimit_kib=1024).rate_bytes == 1 << 20
    assert estimate(facts(), rate_bytes=1e9, bwlimit_kib=0).rate_bytes == 1e9


def test_memory_that_was_never_used_costs_nothing() -> None:
    found = estimate(facts(), touched_mib=1024)
    assert found.copy_bytes == GIB
    assert "memory in use" in found.inputs


@pytest.mark.parametrize("changes", [{"vm": {"ram_mib": None}}, {"verdict": {"local_volumes": ()}}])
def test_what_is_not_known_is_not_estimated(changes: dict[str, dict[str, object]]) -> None:
    of = facts(**changes)  # type: ignore[arg-type]
    found = estimate(of)
    assert (found.seconds is None) == (of.vm is not None and of.vm.ram_mib is None)
    assert (found.copy_bytes is None) == (found.seconds is None)


@given(
    ram=st.integers(64, 4 << 20),
    rate=st.floats(1e7, 1e11),
    share=st.floats(0, 0.99),
)
def test_a_dirtier_guest_never_takes_less_and_stays_under_the_bound(
    ram: int, rate: float, share: float
) -> None:
    of = facts(vm={"ram_mib": ram})
    calm = estimate(of, rate_bytes=rate, dirty_bytes=0)
    busy = estimate(of, rate_bytes=rate, dirty_bytes=rate * share)
    assert calm.seconds is not None
    assert busy.seconds is not None
    assert busy.most_seconds is not None
    assert calm.seconds <= busy.seconds * (1 + 1e-9)
    assert busy.seconds <= busy.most_seconds * (1 + 1e-9)
