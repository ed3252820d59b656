"""The executor: order, circuit breaker, holds, signals, and what is left after a death."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpuctl.actions.interruption import Patience
from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.recovery import recover
from gpuctl.actions.runs import history_of
from gpuctl.actions.steps import Conduct, StepResult
from gpuctl.clock import Deadline
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from tests.actions.playing import HOLD, Killed, Play, code, statuses


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def test_steps_run_in_order_and_the_hold_is_on_meanwhile(play: Play) -> None:
    seen: list[bool] = []
    play.actuator.before = lambda: seen.append(HOLD in play.holder.on)
    outcome = play.run("a", "b")
    assert play.actuator.moved == ["a", "b"]
    assert statuses(outcome) == ["done", "done"]
    assert seen == [True, True]
    assert play.holder.on == set()
    assert [(h.placed, h.removed) for h in outcome.holds] == [(True, True)]
    assert code(outcome) is ExitCode.OK


def test_one_failure_does_not_hide_the_others_and_the_run_is_partial(play: Play) -> None:
    play.actuator.fails = ("a",)
    outcome = play.run("a", "b")
    assert statuses(outcome) == ["failed", "done"]
    assert "it is stuck" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.PARTIAL


def test_the_circuit_breaker_stops_at_the_first_failure(play: Play) -> None:
    play.actuator.fails = ("a",)
    outcome = play.run("a", "b", keep_going=False)
    assert statuses(outcome) == ["failed", "skipped"]
    assert play.actuator.moved == []
    assert code(outcome) is ExitCode.BACKEND


def test_an_api_that_fails_three_times_in_a_row_ends_the_run(play: Play) -> None:
    play.actuator.fails = ("a", "b", "c")
    outcome = play.run("a", "b", "c", "d")
    assert statuses(outcome) == ["failed", "failed", "failed", "skipped"]


def test_a_bug_in_one_step_is_recorded_and_the_hold_is_undone(play: Play) -> None:
    def bug() -> None:
        raise ZeroDivisionError("seven by zero")

    play.actuator.before = bug
    outcome = play.run("a")
    assert statuses(outcome) == ["failed"]
    assert "ZeroDivisionError" in outcome.steps[0].reason
    assert code(outcome) is ExitCode.ERROR
    assert play.holder.on == set()


def test_a_hold_that_was_there_before_stays(play: Play) -> None:
    play.holder.on.add(HOLD)
    outcome = play.run("a")
    assert play.holder.on == {HOLD}
    assert [(h.placed, h.removed) for h in outcome.holds] == [(False, False)]


def test_a_hold_that_cannot_be_placed_keeps_every_step_from_being_begun(play: Play) -> None:
    play.holder.refuses = True
    with pytest.raises(GpuctlError):
        play.run("a")
    assert play.actuator.moved == []


def test_a_hold_that_cannot_be_undone_is_said_and_stays_in_the_journal(play: Play) -> None:
    def refuse() -> None:
        play.holder.refuses = True

    play.actuator.after = refuse
    outcome = play.run("a")
    assert code(outcome) is ExitCode.PARTIAL
    assert "still on" in outcome.warnings[0]
    assert play.runs()[0].open_holds == [HOLD]


def test_the_deadline_skips_what_was_not_begun(play: Play) -> None:
    play.actuator.after = lambda: play.pause(700)
    outcome = play.run("a", "b", timeout=600)
    assert statuses(outcome) == ["done", "skipped"]
    assert "--timeout" in outcome.steps[1].reason
    assert code(outcome) is ExitCode.PARTIAL


def test_a_refused_check_changes_nothing(play: Play) -> None:
    play.actuator.checks = StepResult(
        status="refused", reason="a budget", exit_code=ExitCode.REFUSED
    )
    outcome = play.run("a")
    assert statuses(outcome) == ["refused"]
    assert play.actuator.moved == []
    assert code(outcome) is ExitCode.REFUSED


def test_a_disk_that_fills_up_stops_the_run_and_hides_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done is told as done, nothing more is begun, and the hold comes off."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    play.actuator.after = lambda: monkeypatch.setattr("os.write", full)
    outcome = play.run("a", "b", "c")
    monkeypatch.undo()
    assert statuses(outcome) == ["done", "failed", "failed"]
    assert play.actuator.moved == ["a"]
    assert "No space left" in outcome.steps[1].reason
    assert code(outcome) is ExitCode.ERROR
    assert play.holder.on == set()
    assert len(outcome.warnings) == 1
    (run,) = play.runs()
    assert run.steps["s1"].is_in_flight
    assert recovered(play) == ()
    ended = play.runs()[0].steps["s1"].outcome
    assert ended is not None
    assert ended.status == "done"


# -- several at a time -----------------------------------------------------------------------------


def test_steps_of_a_wave_run_together_and_waves_one_after_another(play: Play) -> None:
    """Each of the first wave waits for the other to have begun, which would never end in turn."""
    together = threading.Barrier(2, timeout=10)
    seen: list[tuple[str, ...]] = []

    def meet() -> None:
        if len(play.actuator.moved) < 2:
            together.wait()
        else:
            seen.append(tuple(sorted(play.actuator.moved)))

    play.actuator.before = meet
    outcome = play.run("a", "b", "c", parallel=2, waves={"c": 1})
    assert statuses(outcome) == ["done", "done", "done"]
    assert [step.id for step in outcome.steps] == ["s1", "s2", "s3"]
    assert seen == [("a", "b")]
    records = read_journal(play.path).records
    assert [record.seq for record in records] == list(range(1, len(records) + 1))


def test_no_more_than_were_asked_for_run_at_a_time(play: Play) -> None:
    now, most = [0], [0]
    guard = threading.Lock()

    def enter() -> None:
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])

    def leave() -> None:
        with guard:
            now[0] -= 1

    play.actuator.before, play.actuator.after = enter, leave
    outcome = play.run(*"abcdefgh", parallel=3)
    assert statuses(outcome) == ["done"] * 8
    assert 1 <= most[0] <= 3


def test_a_failure_in_a_wave_keeps_the_next_wave_from_being_begun(play: Play) -> None:
    play.actuator.fails = ("a",)
    outcome = play.run("a", "b", "c", parallel=2, keep_going=False, waves={"c": 1})
    assert statuses(outcome) == ["failed", "done", "skipped"]
    assert code(outcome) is ExitCode.PARTIAL


# -- signals ---------------------------------------------------------------------------------------


def test_the_first_signal_lets_the_running_step_end_and_begins_no_other(play: Play) -> None:
    play.actuator.after = lambda: play.interruption.request("SIGINT")
    outcome = play.run("a", "b")
    assert statuses(outcome) == ["done", "skipped"]
    assert code(outcome) is ExitCode.INTERRUPTED
    assert play.holder.on == set()
    assert not play.runs()[0].is_open


def test_sigterm_ends_with_its_own_code(play: Play) -> None:
    play.actuator.after = lambda: play.interruption.request("SIGTERM")
    assert code(play.run("a", "b")) is ExitCode.TERMINATED


def test_the_second_signal_leaves_everything_as_it_is_for_the_next_run(play: Play) -> None:
    def twice() -> None:
        play.interruption.request("SIGINT")
        play.interruption.request("SIGINT")

    play.actuator.before = twice
    outcome = play.run("a", "b")
    assert statuses(outcome) == ["unknown", "skipped"]
    assert code(outcome) is ExitCode.INTERRUPTED
    assert "gpuctl history r1" in outcome.warnings[0]
    assert play.holder.on == {HOLD}
    assert [one.step.id for one in play.runs()[0].open_steps] == ["s1"]


def test_a_running_step_is_waited_for_until_its_grace_is_over(play: Play) -> None:
    patience = Patience(play.interruption, Deadline.after(10_000, play.clock))
    assert patience.wait_running(5)
    play.interruption.request("SIGINT")
    assert not patience.wait_idle(5)
    waits = 0
    while patience.wait_running(7):
        waits += 1
    assert waits == 9  # 60 s of grace in waits of 7 s, the last one shorter


def test_a_wait_that_cannot_end_in_time_is_not_begun(play: Play) -> None:
    patience = Patience(play.interruption, Deadline.after(10, play.clock))
    assert not patience.wait_idle(10)
    assert patience.wait_idle(9)


# -- death -----------------------------------------------------------------------------------------


def die() -> None:
    raise Killed


def recovered(play: Play, run_id: str = "r2", backend: str = "here") -> tuple[str, ...]:
    with Journal(play.path, play.clock) as journal:
        return recover(
            play.runs(),
            run_id=run_id,
            backends={"evict": backend},
            actuators={"evict": play.actuator},
            holder=play.holder,
            journal=journal,
            clock=play.clock,
            say=play.said.append,
        )


def test_a_death_between_journal_and_call_is_closed_as_never_done(play: Play) -> None:
    play.actuator.before = die
    with pytest.raises(Killed):
        play.run("a", "b")
    assert play.holder.on == {HOLD}
    (run,) = play.runs()
    assert run.steps["s1"].is_in_flight
    assert recovered(play) == ()
    assert play.holder.on == set()
    (run,) = play.runs()
    assert not run.is_open
    assert run.closed_by == "r2"
    ends = [one.outcome and (one.outcome.status, one.outcome.reason) for one in run.steps.values()]
    assert ends == [
        ("skipped", "it was never moved"),
        ("skipped", "its run died before it was begun"),
    ]
    assert play.actuator.moved == []


def test_a_death_between_call_and_journal_is_closed_as_done_and_not_repeated(play: Play) -> None:
    play.actuator.after = die
    with pytest.raises(Killed):
        play.run("a", "b")
    assert recovered(play) == ()
    outcome = play.runs()[0].steps["s1"].outcome
    assert outcome is not None
    assert (outcome.status, outcome.changed) == ("done", True)
    assert play.actuator.moved == ["a"]
    assert recovered(play, "r3") == ()
    assert play.runs()[0].closed_by == "r2"


def test_a_death_while_waiting_for_the_effect_is_closed_as_done(play: Play) -> None:
    def verify(conduct: Conduct) -> None:
        raise Killed

    play.actuator.during_verify = verify
    with pytest.raises(Killed):
        play.run("a")
    assert not play.runs()[0].steps["s1"].is_in_flight
    recovered(play)
    assert history_of(play.runs(), running=None)[0].steps[0].status == "done"


def test_what_cannot_be_undone_now_stays_open_for_the_next_run(play: Play) -> None:
    play.actuator.before = die
    with pytest.raises(Killed):
        play.run("a")
    play.holder.refuses = True
    (warning,) = recovered(play)
    assert "cordon of gpu-a" in warning
    assert history_of(play.runs(), running=None)[0].state == "abandoned"
    play.holder.refuses = False
    assert recovered(play, "r3") == ()
    assert play.holder.on == set()
    assert history_of(play.runs(), running=None)[0].state == "ended"


def test_a_run_on_another_cluster_is_left_alone(play: Play) -> None:
    """Seen from there its pods and nodes are gone, which would look like a success."""
    play.actuator.before = die
    with pytest.raises(Killed):
        play.run("a")
    (warning,) = recovered(play, backend="elsewhere")
    assert "what it left at here" in warning
    assert play.runs()[0].is_open
    assert play.holder.on == {HOLD}
    assert recovered(play, "r3") == ()


def test_each_api_is_asked_for_its_own_part_of_a_run(play: Play) -> None:
    """A run over two APIs: who reaches one of them closes that part and leaves the other."""
    play.actuator.after = die
    with pytest.raises(Killed):
        play.run("a", migrations=("a",))
    (warning,) = recovered(play)
    assert "what it left at pve" in warning
    assert play.holder.on == set()
    (run,) = play.runs()
    assert run.is_open
    assert run.open_holds == []
    with Journal(play.path, play.clock) as journal:
        left = recover(
            play.runs(),
            run_id="r3",
            backends={"migrate": "pve"},
            actuators={"migrate": play.actuator},
            holder=play.holder,
            journal=journal,
            clock=play.clock,
            say=play.said.append,
        )
    assert left == ()
    (run,) = play.runs()
    assert not run.is_open
    assert run.steps["s1"].outcome is not None
    assert run.steps["s1"].outcome.status == "done"


def test_a_death_at_every_record_leaves_a_journal_that_can_be_cleaned_up(tmp_path: Path) -> None:
    """Kill at each point of the journal in turn: never two moves of one thing, no hold left."""
    whole = Play(tmp_path)
    whole.run("a", "b")
    lines = Path(whole.path).read_bytes().splitlines(keepends=True)
    assert len(lines) == 13
    for count in range(1, len(lines)):
        folder = tmp_path / f"cut-{count}"
        folder.mkdir()
        play = Play(folder)
        Path(play.path).write_bytes(b"".join(lines[:count]))
        moved = [
            name for name in ("a", "b") if f'"name":"{name}"'.encode() in b"".join(lines[:count])
        ]
        play.actuator.moved = list(moved)
        if play.runs()[0].open_holds:
            play.holder.on.add(HOLD)
        assert recovered(play) == ()
        assert play.actuator.moved == moved
        assert play.holder.on == set()
        (run,) = play.runs()
        assert not run.is_open
        assert all(one.outcome is not None for one in run.steps.values())
        done = [one.step.workload for one in run.steps.values() if one.outcome.changed]
        assert done == moved
