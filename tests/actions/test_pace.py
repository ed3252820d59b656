"""Past moves as the journal tells them, and what was hot at the last look."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuctl.actions.journal import Event, Record, read_journal
from gpuctl.actions.pace import HOT_MEMORY, keep_hot, past_moves, read_was_hot
from gpuctl.actions.scope import scope_of
from gpuctl.actions.steps import Step, StepResult, outcome_step
from gpuctl.errors import GpuctlError
from gpuctl.model.outcome import Landing
from gpuctl.model.plan import DeviceRef
from gpuctl.model.policy import Limits, Policy
from gpuctl.model.workload import Workload
from gpuctl.policy.pace import cooling, hour_budget, memory
from tests.actions.playing import NOON, Killed, Play

SOURCE = DeviceRef(node="gpu-a", gpu=3)
POD = Step(
    id="s1",
    action="evict",
    workload="prod/chat-1",
    source=SOURCE,
    target=DeviceRef(node="gpu-b", gpu=0),
    facts={"owner": "Deployment/chat"},
)
VM = Step(id="s1", action="migrate", workload="vm/101", source=SOURCE)
DONE = StepResult(
    status="done",
    reason="evicted",
    changed=True,
    detail={"successor": "prod/chat-2"},
    landed=Landing(node="gpu-c", gpu=1),
)


def a_run(
    step: Step, result: StepResult | None, *, sent: int = 1, run: str = "r1", cluster: str = "hk"
) -> list[Record]:
    """The records of a run with one step; without a result it died on the way."""
    events: list[tuple[Event, dict[str, Any]]] = [
        ("run-started", {"cluster": cluster, "steps": [msgspec.to_builtins(step)]}),
        ("step-started", {}),
        *[("sending", {})] * sent,
    ]
    if result is not None:
        ended = outcome_step(step, result)
        events.append(("step-ended", {"outcome": msgspec.to_builtins(ended)}))
    return [
        Record(
            seq=seq,
            at=NOON + timedelta(minutes=seq),
            run=run,
            event=event,
            step="" if event == "run-started" else step.id,
            data=data,
        )
        for seq, (event, data) in enumerate(events)
    ]


def test_an_eviction_is_known_by_its_successor_and_where_that_one_landed() -> None:
    (move,) = past_moves(a_run(POD, DONE, sent=3), NOON)
    assert move.at == NOON + timedelta(minutes=4)  # the last of three tries
    assert (move.workload, move.heir) == ("prod/chat-1", "prod/chat-2")
    assert move.owner == "prod/Deployment/chat"
    assert (move.source, move.target) == (SOURCE, DeviceRef(node="gpu-c", gpu=1))
    assert move.changed


def test_a_run_that_died_counts_as_if_it_had_moved_the_workload() -> None:
    (move,) = past_moves(a_run(POD, None), NOON)
    assert (move.heir, move.changed, move.target) == (None, True, POD.target)
    (vm,) = past_moves(a_run(VM, None), NOON)
    assert (vm.heir, vm.owner, vm.changed) == ("vm/101", "", True)


@pytest.mark.parametrize(
    ("status", "changed"),
    [("refused", False), ("failed", False), ("skipped", False), ("unknown", True)],
)
def test_what_did_not_move_is_still_there(status: Any, changed: bool) -> None:
    (move,) = past_moves(a_run(POD, StepResult(status=status, reason="no")), NOON)
    assert move.changed is changed
    assert move.heir == (None if changed else "prod/chat-1")


def test_what_was_never_sent_is_no_move() -> None:
    refused = StepResult(status="refused", reason="a rule says no")
    assert past_moves(a_run(POD, refused, sent=0), NOON) == ()


def test_older_moves_and_those_of_another_cluster_are_left_out() -> None:
    records = a_run(POD, DONE)
    assert past_moves(records, NOON + timedelta(minutes=3)) == ()
    assert len(past_moves(records, NOON, cluster="hk")) == 1
    assert past_moves(records, NOON, cluster="sg") == ()
    unnamed = a_run(POD, DONE)
    unnamed[0] = msgspec.structs.replace(unnamed[0], data={**unnamed[0].data, "cluster": None})
    assert len(past_moves(unnamed, NOON, cluster="sg")) == 1


def test_the_journal_of_the_executor_feeds_the_rules(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.run("prod/a", "prod/b")
    play.pause(600)
    play.actuator.fails = ("prod/c",)
    play.run("prod/c", run_id="r2")
    policy = Policy(limits=Limits(moves_per_hour=4, cooldown=timedelta(minutes=30)))
    records = read_journal(play.path).records
    past = past_moves(records, play.clock.now() - memory(policy))
    assert [move.workload for move in past] == ["prod/a", "prod/b", "prod/c"]
    assert hour_budget(past, policy, play.clock.now()).left == 1
    resting = cooling(past, [Workload(id="prod/c", kind="pod")], policy, play.clock.now())
    assert "a move of it was tried" in resting.workloads["prod/c"].reason


def test_a_killed_run_uses_up_the_hour_too(tmp_path: Path) -> None:
    def die() -> None:
        raise Killed

    play = Play(tmp_path)
    play.actuator.after = die
    with pytest.raises(Killed):
        play.run("prod/a", "prod/b")
    past = past_moves(read_journal(play.path).records, NOON - timedelta(hours=1))
    assert [move.workload for move in past] == ["prod/a"]


# -- what was hot ----------------------------------------------------------------------------------


def test_what_was_hot_is_kept_for_an_hour_and_per_context(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    hk = scope_of(environ, "hk", None, make=True)
    assert read_was_hot(hk, NOON) == frozenset()
    keep_hot(hk, ["b/1", "a/0"], NOON)
    assert read_was_hot(hk, NOON + timedelta(minutes=59)) == {"a/0", "b/1"}
    assert read_was_hot(hk, NOON + HOT_MEMORY) == frozenset()
    assert read_was_hot(scope_of(environ, "sg", None, make=True), NOON) == frozenset()
    keep_hot(hk, (), NOON)
    assert read_was_hot(hk, NOON) == frozenset()


@pytest.mark.parametrize("content", ["", "{", '{"at":"2025-03-01T12:00:00","hot":["a/0"]}', "[1]"])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, content: str) -> None:
    scope = scope_of({"XDG_STATE_HOME": str(tmp_path)}, "hk", None, make=True)
    keep_hot(scope, ["a/0"], NOON)
    (path,) = (tmp_path / "gpuctl").glob("hot.*")
    path.write_text(content)
    assert read_was_hot(scope, NOON) == frozenset()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    scope = scope_of({"XDG_STATE_HOME": str(tmp_path)}, "hk", None, make=False)
    with pytest.raises(GpuctlError) as caught:
        keep_hot(scope, ["a/0"], NOON)
    assert str(tmp_path) in caught.value.what
