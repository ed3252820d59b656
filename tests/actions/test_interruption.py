"""Real signals: the first ends a wait and is noted, the second abandons the run."""

from __future__ import annotations

import os
import signal

import pytest

from gpuctl.actions.interruption import Abandoned, interruptible
from gpuctl.clock import SystemClock
from gpuctl.exitcodes import ExitCode


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED),
        (signal.SIGTERM, ExitCode.TERMINATED),
        (signal.SIGHUP, ExitCode.TERMINATED),
    ],
)
def test_the_first_signal_is_noted_and_ends_the_next_wait(
    signum: signal.Signals, code: ExitCode
) -> None:
    before = signal.getsignal(signum)
    said: list[str] = []
    with interruptible(SystemClock(), 60.0, said.append) as interruption:
        os.kill(os.getpid(), signum)
        interruption.pause(3600.0)
        assert interruption.is_requested
        assert interruption.exit_code is code
        assert 0 < interruption.grace_left() <= 60.0
    assert signal.getsignal(signum) is before
    assert said[0].startswith(f"{signum.name}: nothing more is begun; waiting up to 1m for")


def test_the_second_signal_abandons() -> None:
    with interruptible(SystemClock(), 60.0, lambda text: None):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Abandoned):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible(SystemClock(), 60.0, lambda text: None) as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.is_requested
    finally:
        signal.signal(signal.SIGHUP, before)
