"""Logs of migration tasks: recorded ones, and whatever else may come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.policy.migration.task_log import LogReading, read_log

SAMPLES = Path(__file__).parent.parent / "data" / "proxmox"
GIB = 1 << 30
NAMES = tuple(sorted(path.stem for path in SAMPLES.glob("task_log_*.json")))


def log(name: str) -> list[str]:
    return [row["t"] for row in json.loads((SAMPLES / f"{name}.json").read_text())["data"]]


ALL_LINES = [line for name in NAMES for line in log(name)]


def test_a_good_one() -> None:
    reading = read_log(log("task_log_success"))
    assert reading.result == "ok"
    assert reading.reason is None
    assert reading.duration_seconds == 24
    assert reading.downtime_seconds == pytest.approx(0.073)
    assert reading.average_rate == int(1.1 * GIB)
    assert reading.copied_bytes == int(15.9 * GIB)
    assert reading.total_bytes == 16 * GIB
    assert reading.has_moved
    assert reading.fraction == 1.0
    assert reading.last_lines[-1] == "TASK OK"
    assert reading.lines == 30


def test_half_way() -> None:
    reading = read_log(log("task_log_success")[:14])
    assert reading.phase == "memory"
    assert reading.fraction == pytest.approx(3.4 / 16)
    assert reading.rate == int(1.1 * GIB)
    assert reading.seconds_left == pytest.approx(12.6 / 1.1, rel=0.01)
    assert not reading.has_moved
    assert reading.result is None


@pytest.mark.parametrize(
    ("name", "result", "reason"),
    [
        ("failed", "problems", "Unable to write to socket: Broken pipe"),
        ("failed_passthrough", "aborted", "can't migrate VM which uses local devices: hostpci0"),
        (
            *("failed_mapped_not_live", "aborted"),
            "can't live migrate running VM which uses following mapped devices: hostpci0:h100-full",
        ),
        (
            *("failed_target_offline", "aborted"),
            "Can't connect to destination address using public key",
        ),
        ("stopped", "problems", "interrupted by signal"),
    ],
)
def test_why_it_failed(name: str, result: str, reason: str) -> None:
    reading = read_log(log(f"task_log_{name}"))
    assert (reading.result, reading.reason) == (result, reason)
    assert not reading.has_moved
    assert reading.phase == "ended"


def test_disks_that_can_not_move_are_all_named() -> None:
    reason = read_log(log("task_log_failed_local_disks")).reason or ""
    assert "vm-105-disk-0.qcow2" in reason
    assert "debian-13.iso" in reason
    assert "check log" not in reason


def test_a_failure_on_the_target_is_told_in_its_words() -> None:
    reading = read_log(
        [
            "2026-12-01 01:32:49 [gpu-node-2] could not find a free device for 'hostpci0'",
            "2026-12-01 01:32:49 ERROR: online migrate failure - remote command failed with exit "
            "code 255",
            "2026-12-01 01:32:50 ERROR: migration finished with problems (duration 00:01:05)",
            "TASK ERROR: migration problems",
        ]
    )
    assert reading.reason == "[gpu-node-2] could not find a free device for 'hostpci0'"
    assert reading.duration_seconds == 65


def test_a_request_to_ha_is_no_move() -> None:
    reading = read_log(log("task_log_hamigrate"))
    assert reading.is_ha_request
    assert reading.result == "ok"
    assert not reading.has_moved
    assert read_log(["2026-12-01 01:32:49 task started by HA resource agent"]).by_ha


def test_a_guest_that_does_not_converge() -> None:
    stamp = "2026-12-01 01:34:05 "
    reading = read_log(
        [
            stamp + "migration active, transferred 80.0 GiB of 64.0 GiB VM-state, 1.0 GiB/s "
            "(+ 383.5 MiB VFIO-state), VM dirties lots of memory: 15.3 GiB/s",
            stamp + "auto-increased downtime to continue migration: 400 ms",
        ]
    )
    assert reading.fraction == 1.0
    assert (reading.copied_bytes or 0) > (reading.total_bytes or 0)
    assert reading.dirty_rate == int(15.3 * GIB)
    assert reading.dirty_rounds == 1
    assert reading.downtime_raises == 1
    assert reading.vfio_bytes == int(383.5 * (1 << 20))
    assert reading.seconds_left is None


def test_disks_before_the_memory() -> None:
    reading = read_log(["drive-scsi0: transferred 1.0 GiB of 32.0 GiB (3.12%) in 12s"])
    assert reading.phase == "disks"
    assert dict(reading.disk_bytes) == {"drive-scsi0": GIB}
    assert dict(reading.disk_total) == {"drive-scsi0": 32 * GIB}


def test_ends_with_warnings_and_without_words() -> None:
    assert read_log(["TASK WARNINGS: 2"]).result == "warnings"
    assert read_log(["TASK ERROR: unexpected"]).reason == "unexpected"
    assert read_log(["TASK ERROR:"]).reason == "no reason given"


# -- whatever comes ------------------------------------------------------------------------------


@given(lines=st.lists(st.sampled_from(ALL_LINES) | st.text(max_size=80)), cut=st.integers(0, 50))
def test_in_parts_or_at_once_is_the_same(lines: list[str], cut: int) -> None:
    whole = read_log(lines)
    assert read_log(lines[cut:], read_log(lines[:cut])) == whole
    assert whole.lines == len(lines)
    assert whole.fraction is None or 0 <= whole.fraction <= 1
    assert whole.seconds_left is None or whole.seconds_left >= 0
    assert (whole.result in ("ok", "warnings", None)) == (whole.reason is None)
    assert len(whole.last_lines) <= 20


@given(line=st.sampled_from(ALL_LINES), at=st.integers(0, 200), noise=st.text(max_size=20))
def test_a_torn_line_does_no_harm(line: str, at: int, noise: str) -> None:
    reading = read_log([line[:at] + noise])
    assert reading.lines == 1
    assert reading.copied_bytes is None or reading.copied_bytes >= 0


@given(upto=st.integers(0, 30))
def test_progress_only_grows_in_a_calm_log(upto: int) -> None:
    readings = [read_log(log("task_log_success")[:n]) for n in (upto, upto + 1)]
    assert (readings[0].fraction or 0) <= (readings[1].fraction or 0)


def test_a_log_without_end_stays_small() -> None:
    lines = [
        f"migration active, transferred {n}.0 GiB of 9.0 GiB VM-state, 1.0 GiB/s"
        for n in range(5000)
    ]
    reading = read_log(lines, LogReading())
    assert len(reading.last_lines) == 20
    assert reading.lines == 5000
