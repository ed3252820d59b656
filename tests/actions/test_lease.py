"""The lock of a whole cluster: taken, renewed, lost, given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from gpuctl.actions.cluster import LiveCluster, LockPatience
from gpuctl.actions.landing import Locator
from gpuctl.actions.lease import NAME, ClusterLease, cluster_lease
from gpuctl.actions.lock import Holder, LockedError
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.inventory.kubernetes import ClusterInventory
from tests.actions.kube import Site, a_site
from tests.actions.playing import NOON
from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes import Right
from tests.fakes.kubernetes_answers import BY_KIND, Refused

LEASE = BY_KIND["Lease"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A cluster whose server's clock is the test's."""
    with a_site(tmp_path) as made:
        made.fake.state.add(BY_KIND["Namespace"], {"metadata": {"name": "gpuctl"}})
        made.fake.intercept = dated(made)
        yield made


def dated(
    site: Site, before: Callable[[Request], None] = lambda request: None
) -> Callable[[Request], Reply]:
    def answer(request: Request) -> Reply:
        before(request)
        try:
            reply = site.fake._handle(request)
        except Refused as refused:
            reply = refused.reply
        date = formatdate(site.clock.at.timestamp(), usegmt=True)
        return replace(reply, headers={**reply.headers, "Date": date})

    return answer


def who(pid: int) -> Holder:
    return Holder(pid=pid, host="admin", run=f"r{pid}", command="evict", since=NOON)


def lease_of(site: Site, pid: int) -> ClusterLease:
    return ClusterLease(site.client, "gpuctl", who(pid), site.clock)


def taken(site: Site, pid: int, patience: float = 0) -> ClusterLease:
    lease = lease_of(site, pid)
    lease.acquire(patience_seconds=patience, wait=site.wait)
    return lease


def spec(site: Site) -> Any:
    found = site.fake.state.get(LEASE, NAME, "gpuctl")
    assert found is not None
    return found["spec"]


def test_the_second_run_is_told_who_holds_it_in_one_line(site: Site) -> None:
    taken(site, 1)
    site.wait(20)
    with pytest.raises(LockedError) as caught:
        taken(site, 2)
    assert caught.value.exit_code is ExitCode.LOCKED
    assert caught.value.cause is None
    assert caught.value.what == (
        "another gpuctl acts on this cluster: evict, pid 1 on admin, for 20s; its Lease ends in "
        "45s unless renewed"
    )


def test_a_lease_that_was_given_back_is_free_at_once(site: Site) -> None:
    first = taken(site, 1)
    first.check()
    first.release()
    assert spec(site)["holderIdentity"] == ""
    taken(site, 2).check()
    assert spec(site)["leaseTransitions"] == 1


def test_a_dead_holder_is_taken_over_only_after_its_lease_ran_out(site: Site) -> None:
    first = taken(site, 1)
    site.wait(65)
    with pytest.raises(LockedError):
        taken(site, 2)
    site.wait(1)
    second = taken(site, 2)
    second.check()
    with pytest.raises(LockedError) as caught:
        first.check()
    assert "took over" in caught.value.what
    first.release()
    second.check()


def test_it_waits_as_long_as_it_was_told_to(site: Site) -> None:
    taken(site, 1)
    taken(site, 2, patience=70).check()
    assert sum(site.waits) == pytest.approx(66, abs=2)


def test_renewals_keep_it(site: Site) -> None:
    lease = taken(site, 1)
    for _ in range(5):
        site.wait(20)
        lease.renew()
    lease.check()
    assert spec(site)["renewTime"] == "2025-03-01T12:01:40.000000Z"
    assert spec(site)["acquireTime"] == "2025-03-01T12:00:00.000000Z"
    with pytest.raises(LockedError):
        taken(site, 2)


def test_a_lease_that_could_not_be_renewed_is_not_acted_on_to_its_last_second(site: Site) -> None:
    lease = taken(site, 1)
    site.fake.rights["oncall"] = (Right(("get", "create"), ("*",), "*"),)
    site.wait(45)
    lease.renew()
    lease.check()
    site.wait(6)
    with pytest.raises(LockedError) as caught:
        lease.check()
    assert "could not be renewed for 51s" in (caught.value.cause or "")


def test_a_race_for_a_free_lease_has_one_winner(site: Site) -> None:
    """Another run takes it between our look and our write."""
    taken(site, 1).release()
    rival = lease_of(site, 2)
    raced: list[bool] = []

    def before(request: Request) -> None:
        if request.method == "PUT" and not raced:
            raced.append(True)
            rival.acquire(patience_seconds=0, wait=site.wait)

    site.fake.intercept = dated(site, before)
    with pytest.raises(LockedError):
        taken(site, 3)
    rival.check()


def test_many_runs_at_once_have_one_winner(site: Site) -> None:
    results: list[str] = []
    ready = threading.Barrier(6)

    def run(pid: int) -> None:
        lease = lease_of(site, pid)
        ready.wait()
        try:
            lease.acquire(patience_seconds=0, wait=site.wait)
        except LockedError:
            results.append("locked")
        else:
            results.append("taken")

    for _ in range(5):
        results.clear()
        ready.reset()
        threads = [threading.Thread(target=run, args=(pid,)) for pid in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == ["locked"] * 5 + ["taken"]
        site.fake.state.remove(LEASE, NAME, "gpuctl")


def test_within_the_context_a_thread_renews_and_the_end_gives_it_back(site: Site) -> None:
    with cluster_lease(
        site.client, "gpuctl", who(1), clock=site.clock, patience_seconds=0, wait=site.wait
    ) as lease:
        lease.check()
        assert any(thread.name == "lease" for thread in threading.enumerate())
    assert spec(site)["holderIdentity"] == ""
    assert not any(thread.name == "lease" for thread in threading.enumerate())


def cluster(site: Site, namespace: str = "gpuctl") -> LiveCluster:
    inventory = ClusterInventory(server="", nodes={}, pods={})
    return LiveCluster(site.client, inventory, Locator(None), site.clock, namespace)


@pytest.mark.parametrize("lacks", ["right", "namespace"])
def test_without_a_lease_the_run_goes_on_and_says_what_that_means(site: Site, lacks: str) -> None:
    if lacks == "right":
        site.fake.rights["oncall"] = (Right(("get", "list"), ("pods",)),)
    where = "gpuctl" if lacks == "right" else "no-such-namespace"
    patience = LockPatience(0, site.wait, site.said.append)
    with cluster(site, where).exclusively(who(1), patience) as fence:
        fence()
    (said,) = site.said
    assert f"no Lease {where}/gpuctl-run" in said
    assert "other machines" in said


def test_a_run_whose_lock_is_taken_over_evicts_nothing_more(site: Site) -> None:
    pods = [site.pod("chat-a"), site.pod("chat-b")]
    lease = taken(site, 1)
    site.fence = lease.check

    def steal(_: float) -> None:
        if site.clock.at - NOON > timedelta(seconds=10):
            found = site.fake.state.get(LEASE, NAME, "gpuctl")
            assert found is not None
            stolen = {**found["spec"], "holderIdentity": "evict/other/2/x", "leaseTransitions": 9}
            site.fake.state.change(LEASE, {**found, "spec": stolen})

    site.on_wait = steal
    outcome = site.evict(*pods)
    assert [step.status for step in outcome.steps] == ["done", "failed"]
    assert "took over the lock" in outcome.steps[1].reason
    assert site.fake.state.evicted == ["prod/chat-a"]
    assert outcome.exit_code == ExitCode.PARTIAL


def test_an_api_that_fails_is_an_error_and_no_lock(site: Site) -> None:
    site.fake.tokens.clear()
    with pytest.raises(GpuctlError) as caught:
        taken(site, 1)
    assert caught.value.exit_code is ExitCode.BACKEND
