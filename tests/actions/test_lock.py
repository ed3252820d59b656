"""One acting run at a time; a lock dies with its process."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from gpuctl.actions.lock import Holder, LockedError, holder_of, run_lock
from gpuctl.clock import FixedClock
from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from tests.actions.playing import NOON

HOLDER = Holder(pid=4711, host="gpu-admin", run="r1", command="evict", since=NOON)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOON)


def test_the_second_run_is_told_who_holds_it_in_one_line(tmp_path: Path, clock: FixedClock) -> None:
    path = str(tmp_path / "lock")

    def wait(seconds: float) -> None:
        raise AssertionError("it has to give up at once")

    with run_lock(path, HOLDER, clock=clock, subject="context hk", wait=wait):
        clock.at += timedelta(minutes=2)
        with (
            pytest.raises(LockedError) as caught,
            run_lock(path, HOLDER, clock=clock, subject="context hk", wait=wait),
        ):
            pass
        assert holder_of(path) == HOLDER
    assert caught.value.exit_code is ExitCode.LOCKED
    assert caught.value.what == (
        "another gpuctl acts on context hk: evict, pid 4711 on gpu-admin, for 2m"
    )
    assert caught.value.cause is None
    assert holder_of(path) is None


def test_it_waits_as_long_as_it_was_told_to(tmp_path: Path, clock: FixedClock) -> None:
    path = str(tmp_path / "lock")
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.at += timedelta(seconds=seconds)

    with (
        run_lock(path, HOLDER, clock=clock, subject="hk", wait=wait),
        pytest.raises(LockedError),
        run_lock(path, HOLDER, clock=clock, subject="hk", patience_seconds=1.2, wait=wait),
    ):
        pass
    assert sum(waited) == pytest.approx(1.2)


def test_it_gets_the_lock_when_the_other_run_ends(tmp_path: Path, clock: FixedClock) -> None:
    path = str(tmp_path / "lock")
    first = run_lock(path, HOLDER, clock=clock, subject="hk", wait=lambda _: None)
    first.__enter__()

    def wait(seconds: float) -> None:
        first.__exit__(None, None, None)

    with run_lock(path, HOLDER, clock=clock, subject="hk", patience_seconds=60, wait=wait):
        assert holder_of(path) == HOLDER


def test_a_killed_process_leaves_no_lock(tmp_path: Path, clock: FixedClock) -> None:
    path = tmp_path / "lock"
    code = (
        "import fcntl, os, sys\n"
        f"d = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(d, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with (
            pytest.raises(LockedError),
            run_lock(str(path), HOLDER, clock=clock, subject="hk", wait=lambda _: None),
        ):
            pass
        process.kill()
        process.wait()
        with run_lock(str(path), HOLDER, clock=clock, subject="hk", wait=lambda _: None):
            assert holder_of(str(path)) == HOLDER


def test_a_folder_that_is_not_there_is_an_error_with_a_way_out(
    tmp_path: Path, clock: FixedClock
) -> None:
    path = str(tmp_path / "none" / "lock")
    with (
        pytest.raises(GpuctlError) as caught,
        run_lock(path, HOLDER, clock=clock, subject="hk", wait=lambda _: None),
    ):
        pass
    assert "XDG_STATE_HOME" in (caught.value.hint or "")
