"""The journal survives whatever happens to its last line, and says what was in flight."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuctl.actions.journal import Journal, parse_journal, read_journal
from gpuctl.clock import FixedClock
from gpuctl.errors import GpuctlError
from tests.actions.playing import NOON, Play


def write_three(path: Path) -> bytes:
    with Journal(str(path), FixedClock(NOON)) as journal:
        journal.write("r1", "run-started", data={"command": "evict", "steps": []})
        journal.write("r1", "sending", step="s1", data={"uid": "a-1"})
        journal.write("r1", "answered", step="s1", data={"result": "evicted", "text": "Grüße\n"})
    return path.read_bytes()


def test_records_come_back_in_order_with_times_and_sequence(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write_three(path)
    records = read_journal(str(path)).records
    assert [record.event for record in records] == ["run-started", "sending", "answered"]
    assert [record.seq for record in records] == [1, 2, 3]
    assert {record.at for record in records} == {NOON}
    assert records[2].data["text"] == "Grüße\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_cut_at_any_byte_of_its_last_record_keeps_all_others(tmp_path: Path) -> None:
    whole = write_three(tmp_path / "whole")
    begin = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(begin, len(whole) + 1):
        path = tmp_path / f"cut-{end}"
        path.write_bytes(whole[:end])
        is_whole = end >= len(whole) - 1  # only the line's end may be missing
        found = parse_journal(path.read_bytes())
        assert [r.seq for r in found.records] == ([1, 2, 3] if is_whole else [1, 2])
        assert bool(found.warnings) == (not is_whole and end > begin)
        with Journal(str(path), FixedClock(NOON)) as journal:
            journal.write("r2", "run-started", data={"command": "evict"})
        again = read_journal(str(path)).records
        assert [r.run for r in again] == ["r1"] * (3 if is_whole else 2) + ["r2"]
        assert again[-1].seq == again[-2].seq + 1
        assert path.read_bytes().startswith(whole[:end])


def test_garbage_in_the_middle_is_reported_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    lines = write_three(path).split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b'{"seq": 9', b"\0\0\0\0", b"\xff\xfe", *lines[1:]]))
    found = read_journal(str(path))
    assert [record.seq for record in found.records] == [1, 2, 3]
    assert found.warnings == ("the journal has lines that can't be read, cut off by a crash: 2, 4",)


def test_every_record_is_synced_before_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    path = tmp_path / "journal"
    with Journal(str(path), FixedClock(NOON)) as journal:
        for number in range(1, 4):
            journal.write("r1", "sending", step=f"s{number}", data={})
            assert synced[-1] == path.stat().st_size


def test_a_journal_that_cannot_be_written_stops_the_run_before_it_acts(tmp_path: Path) -> None:
    folder = tmp_path / "journal.jsonl"
    folder.mkdir()
    play = Play(tmp_path)
    with pytest.raises(GpuctlError) as caught:
        play.run("a")
    assert "without a journal nothing is changed" in caught.value.what
    assert play.actuator.moved == []


def test_a_missing_journal_is_empty(tmp_path: Path) -> None:
    assert read_journal(str(tmp_path / "none")).records == ()
