"""What an eviction does, and what each answer of the API means for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuctl.actions.evictor import EvictorOptions
from gpuctl.actions.steps import Hold
from gpuctl.clients.kubernetes import client as client_module
from gpuctl.exitcodes import ExitCode
from tests.actions.kube import Site, a_site
from tests.actions.playing import code, statuses
from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes import Right, times
from tests.fakes.kubernetes_answers import NODES, OVERLOAD, PODS


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with a_site(tmp_path) as made:
        yield made


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


def is_real(request: Request) -> bool:
    return is_eviction(request) and request.param("dryRun") is None


# -- the way it should go --------------------------------------------------------------------------


def test_a_pod_is_evicted_and_its_successor_is_waited_for(site: Site) -> None:
    site.pod("chat-b")
    step = site.evict_one(site.pod("chat-a"))
    assert (step.status, step.changed) == ("done", True)
    assert step.landed is not None
    assert step.landed.node == "gpu-b"
    assert step.landed.cooler is None
    assert step.detail["successor"].startswith("prod/chat-5d8f7c-new")  # type: ignore[union-attr]
    assert site.fake.state.evicted == ["prod/chat-a"]
    assert "chat-a" not in site.names()


def test_it_sends_the_uid_and_asks_strictly_and_rehearses_first(site: Site) -> None:
    pod = site.pod("chat-a")
    site.options = replace(site.options, grace_seconds=7)
    site.evict(pod)
    dry, real = [request for request in site.fake.requests if is_eviction(request)]
    for request in (dry, real):
        body = json.loads(request.body)
        assert body["deleteOptions"]["preconditions"] == {"uid": pod["metadata"]["uid"]}
        assert body["deleteOptions"]["gracePeriodSeconds"] == 7
        assert request.param("fieldValidation") == "Strict"
    assert dry.param("dryRun") == "All"
    assert json.loads(dry.body)["deleteOptions"]["dryRun"] == ["All"]
    assert real.param("dryRun") is None


def test_it_leaves_an_event_on_the_pod_and_on_its_controller(site: Site) -> None:
    site.evict(site.pod("chat-a"))
    about = {(e["regarding"]["kind"], e["regarding"]["name"]) for e in site.events()}
    assert about == {("Pod", "chat-a"), ("ReplicaSet", "chat-5d8f7c")}
    note = site.events()[0]["note"]
    assert "gpu-a/0 at 96 % utilization" in note


def test_an_event_that_cannot_be_written_does_not_matter(site: Site) -> None:
    site.fake.rights["oncall"] = (Right(("get", "list", "create"), ("pods", "pods/eviction")),)
    assert site.evict_one(site.pod("chat-a")).status == "done"


def test_a_stateful_pod_is_followed_by_its_uid(site: Site) -> None:
    step = site.evict_one(site.pod("db-0", ("StatefulSet", "db")))
    assert step.status == "done"
    assert step.detail["successor"] == "prod/db-0"


def test_a_bare_pod_has_no_successor(site: Site) -> None:
    step = site.evict_one(site.pod("lone", None))
    assert step.status == "done"
    assert "nothing starts it again" in step.reason


def test_without_waiting_it_returns_at_once(site: Site) -> None:
    step = site.evict_one(site.pod("chat-a"), verify=False)
    assert (step.status, step.reason) == ("done", "evicted")
    assert site.waits == []


# -- dry runs --------------------------------------------------------------------------------------


def test_a_dry_run_evicts_nothing(site: Site) -> None:
    site.options = EvictorOptions(dry_run=True)
    outcome = site.evict(site.pod("chat-a"), site.pod("chat-b"))
    assert statuses(outcome) == ["allowed", "allowed"]
    assert code(outcome) is ExitCode.OK
    assert site.fake.state.evicted == []
    assert site.evictions() == []
    assert not site.events()


def test_a_misspelt_dry_run_evicts_nothing_either(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API drops unknown fields, and then a dry run in the body alone is a real eviction."""

    def misspelt(namespace: str, name: str, **_: Any) -> dict[str, Any]:
        meta = {"name": name, "namespace": namespace}
        return {"metadata": meta, "delete_options": {"dry_run": ["All"]}}

    monkeypatch.setattr(client_module, "eviction_body", misspelt)
    site.options = EvictorOptions(dry_run=True)
    outcome = site.evict(site.pod("chat-a"))
    assert statuses(outcome) == ["failed"]
    assert site.fake.state.evicted == []
    (request,) = site.evictions(real=False)
    assert (request.param("dryRun"), request.param("fieldValidation")) == ("All", "Strict")


def test_a_dry_run_says_what_a_budget_would_do(site: Site) -> None:
    pod = site.pod("chat-a")
    site.pod("chat-b", ready=False)
    site.budget(min_available=1)
    site.options = EvictorOptions(dry_run=True)
    outcome = site.evict(pod)
    assert statuses(outcome) == ["refused"]
    assert "a real run would wait" in outcome.steps[0].reason
    assert outcome.steps[0].detail["budget_demands"] == 1
    assert code(outcome) is ExitCode.OK


# -- pods that are no longer what they were --------------------------------------------------------


def test_a_pod_that_is_gone_is_unchanged(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.state.remove(PODS, "chat-a", "prod")
    step = site.evict_one(pod)
    assert (step.status, step.reason) == ("unchanged", "gone already")
    assert not [request for request in site.fake.requests if is_eviction(request)]


def test_another_pod_of_the_same_name_is_left_alone(site: Site) -> None:
    pod = site.pod("db-0", ("StatefulSet", "db"))
    site.fake.state.remove(PODS, "db-0", "prod")
    site.pod("db-0", ("StatefulSet", "db"))
    step = site.evict_one(pod)
    assert step.status == "unchanged"
    assert "another pod has its name" in step.reason
    assert site.fake.state.evicted == []


def test_a_pod_replaced_between_the_look_and_the_call_is_left_alone(site: Site) -> None:
    pod = site.pod("db-0", ("StatefulSet", "db"))

    def swap(request: Request) -> None:
        if is_real(request):
            site.fake.state.remove(PODS, "db-0", "prod")
            site.pod("db-0", ("StatefulSet", "db"))

    site.fake.intercept = swap  # type: ignore[assignment]
    step = site.evict_one(pod)
    assert step.status == "unchanged"
    assert "two minutes" in step.reason
    assert site.fake.state.evicted == []


def test_a_terminating_pod_is_not_evicted_again(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.state.terminate(pod, 300)
    step = site.evict_one(pod)
    assert step.status == "unchanged"
    assert "terminating already" in step.reason
    assert not site.evictions()


def test_a_pod_of_a_namespace_that_goes_away_is_unchanged(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.state.namespaces_ending.add("prod")
    step = site.evict_one(pod)
    assert step.status == "unchanged"
    assert "namespace" in step.reason


# -- budgets ---------------------------------------------------------------------------------------


def test_a_budget_is_waited_for_until_it_allows_one(site: Site) -> None:
    pod = site.pod("chat-a")
    site.pod("chat-b", ready=False)
    site.budget(min_available=1)

    def heal(_: float) -> None:
        if len(site.waits) == 3:
            site.fake.state.make_ready("prod", "chat-b")

    site.on_wait = heal
    step = site.evict_one(pod)
    assert step.status == "done"
    assert site.waits[:3] == [5.0, 5.0, 5.0]
    waiting = [line for line in site.said if "waiting" in line]
    assert waiting == [
        "s1 prod/chat-a: waiting: budget chat demands 1 healthy pods and has 1 of 2; the next "
        "chance is when 1 more pod is healthy"
    ]
    assert len(site.evictions()) == 4


def test_a_budget_that_never_allows_any_is_not_waited_for(site: Site) -> None:
    pod = site.pod("chat-a")
    site.budget(min_available=1)
    outcome = site.evict(pod)
    assert statuses(outcome) == ["refused"]
    assert "no eviction ever passes" in outcome.steps[0].reason
    assert outcome.steps[0].detail == {
        "budget": "chat",
        "budget_allows": 0,
        "budget_healthy": 1,
        "budget_demands": 1,
        "budget_expects": 1,
    }
    assert code(outcome) is ExitCode.REFUSED
    assert site.waits == []


def test_time_that_runs_out_over_a_budget_is_a_timeout_with_its_numbers(site: Site) -> None:
    pod = site.pod("chat-a")
    site.pod("chat-b", ready=False)
    site.budget(min_available=1)
    outcome = site.evict(pod, timeout=30)
    assert statuses(outcome) == ["refused"]
    assert "budget chat demands 1" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.TIMEOUT
    assert site.fake.state.evicted == []


def test_a_budget_that_is_just_being_counted_is_waited_for_as_it_asks(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.state.add_budget(
        {
            "metadata": {"name": "chat", "namespace": "prod"},
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "chat"}}},
        },
        processed=False,
    )
    step = site.evict_one(pod)
    assert step.status == "done"
    assert site.waits[0] == 10.0


def test_one_failed_precondition_holds_the_budget_and_that_is_waited_for(site: Site) -> None:
    """An eviction with a wrong UID has spent the budget for two minutes."""
    pods = [site.pod("chat-a"), site.pod("chat-b"), site.pod("chat-c")]
    site.budget(max_unavailable=1)
    site.client.evict("prod", "chat-c", uid="another")
    step = site.evict_one(pods[0])
    assert step.status == "done"
    assert "a booked eviction expires" in " ".join(site.said)
    assert site.clock.at - step.started_at >= timedelta(seconds=120)  # type: ignore[operator]


def test_several_budgets_on_one_pod_are_named_as_such(site: Site) -> None:
    pod = site.pod("chat-a")
    site.budget("one", min_available=0)
    site.budget("two", min_available=0)
    outcome = site.evict(pod)
    assert statuses(outcome) == ["refused"]
    assert "more than one PodDisruptionBudget" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.REFUSED
    assert site.waits == []


def test_one_refusal_does_not_hide_the_others(site: Site) -> None:
    first = site.pod("chat-a")
    site.budget(min_available=1)
    second = site.pod("db-0", ("StatefulSet", "db"))
    outcome = site.evict(first, second)
    assert statuses(outcome) == ["refused", "done"]
    assert code(outcome) is ExitCode.PARTIAL


# -- the server's troubles -------------------------------------------------------------------------


def test_an_overloaded_server_is_not_a_budget(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.intercept = times(2, OVERLOAD, is_real)
    step = site.evict_one(pod)
    assert step.status == "done"
    assert site.waits[:2] == [1.0, 1.0]
    assert not any("budget" in line for line in site.said)


def test_a_missing_right_ends_the_run_and_names_the_rule(site: Site) -> None:
    pods = [site.pod("chat-a"), site.pod("chat-b")]
    site.fake.rights["oncall"] = (Right(("get", "list"), ("*",), "*"),)
    outcome = site.evict(*pods)
    assert statuses(outcome) == ["failed", "skipped"]
    assert '{apiGroups: [""], resources: [pods/eviction], verbs: [create]}' in (
        outcome.steps[0].reason
    )
    assert code(outcome) is ExitCode.BACKEND
    assert site.fake.state.evicted == []


def test_expired_credentials_are_said(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.tokens.clear()
    outcome = site.evict(pod)
    assert statuses(outcome) == ["failed"]
    assert "does not accept the credentials" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.BACKEND


def test_an_answer_that_was_lost_after_the_eviction_is_looked_up(site: Site) -> None:
    pod = site.pod("chat-a")

    def lose(request: Request) -> Reply | None:
        if is_real(request):
            site.fake.state.terminate(pod, None)
            return Reply(drop=True)
        return None

    site.fake.intercept = lose
    step = site.evict_one(pod)
    assert (step.status, step.changed) == ("done", True)
    assert len(site.evictions()) == 1
    assert site.fake.state.evicted == ["prod/chat-a"]


def test_a_call_that_never_arrived_is_made_again(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.intercept = times(1, Reply(drop=True), is_real)
    step = site.evict_one(pod)
    assert step.status == "done"
    assert len(site.evictions()) == 2
    assert site.fake.state.evicted == ["prod/chat-a"]


def test_answers_that_keep_being_lost_end_as_unknown(site: Site) -> None:
    pod = site.pod("chat-a")
    site.fake.intercept = times(9, Reply(drop=True), is_real)
    outcome = site.evict(pod)
    assert statuses(outcome) == ["unknown"]
    assert code(outcome) is ExitCode.PARTIAL
    assert len(site.evictions()) == 2


def test_a_server_that_dies_between_two_evictions_fails_the_second_alone(site: Site) -> None:
    first, second = site.pod("chat-a"), site.pod("db-0", ("StatefulSet", "db"))

    def die(request: Request) -> Reply | None:
        gone = "prod/chat-a" in site.fake.state.evicted and "chat-a" not in site.names()
        return Reply(drop=True) if gone and "db-0" in request.path else None

    site.fake.intercept = die
    outcome = site.evict(first, second)
    assert statuses(outcome) == ["done", "failed"]
    assert code(outcome) is ExitCode.PARTIAL
    assert site.fake.state.evicted == ["prod/chat-a"]


# -- successors ------------------------------------------------------------------------------------


def test_a_successor_that_stays_pending_is_reported_with_the_schedulers_reason(site: Site) -> None:
    pod = site.pod("chat-a")
    site.replacement_ready = False
    site.fake.state.landing = lambda old: None
    outcome = site.evict(pod)
    assert statuses(outcome) == ["failed"]
    assert outcome.steps[0].changed
    assert "8 Insufficient nvidia.com/gpu" in outcome.steps[0].reason
    assert "10m after the eviction" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.PARTIAL


def test_an_owner_that_makes_no_new_pod_is_not_waited_for_long(site: Site) -> None:
    pod = site.pod("chat-a")
    site.on_wait = lambda _: site.fake.state.waiting_owners.clear()
    step = site.evict_one(pod)
    assert step.status == "done"
    assert "no successor of Deployment/chat" in step.reason
    assert sum(site.waits) <= 62


def test_the_siblings_that_were_there_before_are_not_taken_for_successors(site: Site) -> None:
    pod = site.pod("chat-a")
    site.pod("chat-b")
    site.replacement_ready = False
    step = site.evict_one(pod, timeout=60)
    assert step.status == "failed"
    assert "starts on gpu-b" in step.reason


# -- holds and signals -----------------------------------------------------------------------------


def spec(site: Site, node: str) -> Any:
    found = site.fake.state.get(NODES, node)
    assert found is not None
    return found["spec"]


@pytest.mark.parametrize("kind", ["cordon", "soft-taint"])
def test_a_hold_is_on_while_evicting_and_off_afterwards(site: Site, kind: Any) -> None:
    seen: list[Any] = []

    def look(request: Request) -> None:
        if is_real(request):
            seen.append(dict(spec(site, "gpu-a")))

    site.fake.intercept = look  # type: ignore[assignment]
    before = spec(site, "gpu-a")
    outcome = site.evict(site.pod("chat-a"), holds=(Hold(kind, "gpu-a"),))
    assert statuses(outcome) == ["done"]
    if kind == "cordon":
        assert seen[0]["unschedulable"] is True
    else:
        assert seen[0]["taints"] == [
            {"key": "gpuctl.io/evicting", "value": "r1", "effect": "PreferNoSchedule"}
        ]
    assert spec(site, "gpu-a") == before


def test_a_cordon_of_somebody_else_stays(site: Site) -> None:
    site.client.node.cordon("gpu-a")
    site.evict(site.pod("chat-a"), holds=(Hold("cordon", "gpu-a"),))
    assert spec(site, "gpu-a")["unschedulable"] is True


def test_a_signal_while_waiting_for_a_budget_evicts_nothing(site: Site) -> None:
    pods = [site.pod("chat-a"), site.pod("chat-b", ready=False)]
    site.budget(min_available=1)
    site.on_wait = lambda _: site.interruption.request("SIGTERM")
    outcome = site.evict(*pods, holds=(Hold("cordon", "gpu-a"),))
    assert statuses(outcome) == ["interrupted", "skipped"]
    assert code(outcome) is ExitCode.TERMINATED
    assert site.fake.state.evicted == []
    assert "unschedulable" not in spec(site, "gpu-a")


def test_a_signal_while_waiting_for_a_successor_grants_it_some_time(site: Site) -> None:
    pods = [site.pod("chat-a"), site.pod("chat-b")]

    def once(_: float) -> None:
        if not site.interruption.is_requested:
            site.interruption.request("SIGINT")

    site.on_wait = once
    outcome = site.evict(*pods)
    assert statuses(outcome) == ["done", "skipped"]
    assert code(outcome) is ExitCode.INTERRUPTED


def test_a_successor_that_takes_longer_than_that_is_left(site: Site) -> None:
    pod = site.pod("chat-a")
    site.replacement_ready = False

    def once(_: float) -> None:
        if not site.interruption.is_requested:
            site.interruption.request("SIGINT")

    site.on_wait = once
    outcome = site.evict(pod)
    assert statuses(outcome) == ["interrupted"]
    assert outcome.steps[0].changed
    assert sum(site.waits) == pytest.approx(62)
