"""`gpuctl heatmap --watch` without a terminal: its option, its refusals, its signals."""

from __future__ import annotations

import os
import select
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuctl.cli.lazy import root_command
from gpuctl.cli.signals import Terminated
from gpuctl.cli.watch_signals import NotedSignals
from gpuctl.clock import Deadline, FixedClock, Stopwatch
from tests.conftest import RunCli


def watch_of(*words: str) -> dict[str, Any]:
    """What the parser makes of `heatmap WORDS`."""
    command = root_command().get_command(None, "heatmap")
    with command.make_context("heatmap", list(words)) as ctx:
        return dict(ctx.params)


@pytest.mark.parametrize(
    ("words", "period"),
    [
        (["--watch"], "5"),
        (["--watch", "2"], "2"),
        (["--watch=2"], "2"),
        (["--watch", "2s"], "2s"),
        (["--watch", "--node", "x"], "5"),
        (["--watch", "--hot"], "5"),
        (["--hot", "--watch"], "5"),
        (["--watch", "1m", "--node", "x"], "1m"),
    ],
)
def test_the_seconds_may_be_left_out(words: list[str], period: str) -> None:
    params = watch_of(*words)
    assert params["watch"] == period
    assert list(params["node"] or ()) == (["x"] if "x" in words else [])


@pytest.mark.parametrize("words", [["--watch", "0.5"], ["--watch", "200ms"]])
def test_faster_than_a_second_is_refused(run_cli: RunCli, words: list[str]) -> None:
    ran = run_cli("--demo", "heatmap", *words, tty=True)
    assert ran.code == 2
    assert "once a second at most" in ran.stderr


def test_nonsense_is_refused_by_name(run_cli: RunCli) -> None:
    ran = run_cli("--demo", "heatmap", "--watch", "often", tty=True)
    assert ran.code == 2
    assert "--watch" in ran.stderr
    assert "often" in ran.stderr


def test_without_a_terminal_it_says_what_to_do_instead(run_cli: RunCli) -> None:
    ran = run_cli("--demo", "heatmap", "--watch")
    assert ran.code == 2
    assert "needs a terminal" in ran.stderr
    assert "standard output is not one" in ran.stderr
    assert "watch(1)" in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("form", ["json", "csv", "wide", "name", "yaml"])
def test_other_formats_are_refused(run_cli: RunCli, form: str) -> None:
    ran = run_cli("--demo", "heatmap", "--watch", "-o", form, tty=True)
    assert ran.code == 2
    assert f"--watch shows a picture, not {form}" in ran.stderr
    assert f"watch -n 5 gpuctl heatmap -o {form}" in ran.stderr


def test_a_dumb_terminal_is_refused(run_cli: RunCli) -> None:
    ran = run_cli("--demo", "heatmap", "--watch", tty=True, environ={"TERM": "dumb"})
    assert ran.code == 2
    assert "TERM" in ran.stderr


@pytest.mark.parametrize("other", [["--since", "1h"], ["--explain", "a/0"], ["--export", "x.svg"]])
def test_it_goes_with_no_other_way_of_showing(run_cli: RunCli, other: list[str]) -> None:
    ran = run_cli("--demo", "heatmap", "--watch", *other, tty=True)
    assert ran.code == 2
    assert "--watch" in ran.stderr


# The limit of time for each read


def test_a_deadline_on_a_stopwatch_begins_anew_with_each_round() -> None:
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    stopwatch = Stopwatch(clock)
    deadline = Deadline.after(60, stopwatch)
    clock.at += timedelta(seconds=50)
    assert deadline.remaining() == 10
    stopwatch.restart()
    assert deadline.remaining() == 60
    clock.at += timedelta(seconds=61)
    assert deadline.remaining() == 0
    assert stopwatch.now() == clock.at


# Signals as notes


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_a_signal_wakes_the_loop_and_interrupts_nothing() -> None:
    with NotedSignals() as signals:
        assert not readable(signals.wakeup)
        os.kill(os.getpid(), signal.SIGWINCH)
        assert readable(signals.wakeup)
        assert signals.taken() == {signal.SIGWINCH}
        assert signals.taken() == set()
        assert not readable(signals.wakeup)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_what_asks_to_end_ends_when_it_is_heeded(signum: signal.Signals) -> None:
    with NotedSignals() as signals:
        os.kill(os.getpid(), signum)
        with pytest.raises(Terminated) as ended:
            signals.taken()
        assert ended.value.name == signum.name


def test_ctrl_c_is_an_interrupt_and_the_second_one_does_not_wait() -> None:
    with NotedSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signals.taken()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_are_as_before_afterwards() -> None:
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGTSTP)
    before = [signal.getsignal(signum) for signum in watched]
    with NotedSignals() as signals:
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(signum) for signum in watched] == before
    signals.wake()  # a read that ends late finds nobody, and that is fine


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with NotedSignals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.taken() == set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_wakes_the_loop() -> None:
    with NotedSignals() as signals:
        for _ in range(100_000):
            signals.wake()
        assert readable(signals.wakeup)
        assert signals.taken() == set()
        assert not readable(signals.wakeup)
