"""Snapshots in files: there and back, and every way in which a file can be wrong."""

from __future__ import annotations

import io
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuctl.errors import UsageError
from gpuctl.inventory.saved import load_snapshot
from gpuctl.metrics.snapshot_source import SnapshotSource
from gpuctl.metrics.source import Want
from gpuctl.model.gpu import GpuState, Tenant
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot, Source
from tests.policy.cards import NOON, a_card, a_snapshot, an_instance

FULL = a_snapshot(
    a_card("n1", 0, 96, pods=["prod/llm-0"], hot_for_seconds=600.0, xid=79),
    a_card("n1", 1, None, state=GpuState.LOST),
    a_card("節點-2", 0, 14, mig=(an_instance(9, "1g.10gb", 99),), total_slices=7),
    warnings=("odd",),
    context="hk",
)


def encoded(snapshot: Snapshot = FULL, **changes: Any) -> bytes:
    """The file of a snapshot with some of its keys changed; a change to ... removes one."""
    document = msgspec.to_builtins(snapshot) | changes
    return msgspec.json.encode({k: v for k, v in document.items() if v is not ...})


def load(tmp_path: Path, data: bytes, *, later: float = 5) -> Snapshot:
    file = tmp_path / "s.json"
    file.write_bytes(data)
    return load_snapshot(str(file), None, now=NOON + timedelta(seconds=later))


def test_a_snapshot_comes_back_as_it_was(tmp_path: Path) -> None:
    back = load(tmp_path, encoded())
    assert back.source == Source(kind="file", location=str(tmp_path / "s.json"))
    assert replace(back, source=FULL.source) == FULL


LOAD = st.one_of(st.none(), st.floats(0, 100))


@given(st.lists(st.tuples(LOAD, st.sampled_from(list(GpuState)), st.text(max_size=8)), max_size=6))
def test_any_snapshot_survives_json(rows: list[tuple[float | None, GpuState, str]]) -> None:
    cards = [
        a_card("n", i, load, state=state, tenants=(Tenant(workload=name),))
        for i, (load, state, name) in enumerate(rows)
    ]
    snapshot = a_snapshot(*cards)
    data = msgspec.json.encode(snapshot)
    assert msgspec.json.decode(data, type=Snapshot) == snapshot


def test_stdin_is_a_file_too() -> None:
    stream = io.TextIOWrapper(io.BytesIO(encoded()), encoding="ascii")
    back = load_snapshot("-", stream, now=NOON)
    assert back.gpus == FULL.gpus
    assert back.source.location == "-"
    assert load_snapshot("-", io.StringIO(encoded().decode()), now=NOON).gpus == FULL.gpus


def test_its_own_age_is_a_warning_and_the_samples_stay_as_fresh_as_they_were(
    tmp_path: Path,
) -> None:
    back = load(tmp_path, encoded(), later=3 * 3600)
    assert back.warnings[0] == "the snapshot was taken 3h ago"
    assert back.gpus == FULL.gpus
    assert "future" in load(tmp_path, encoded(), later=-7200).warnings[0]
    assert load(tmp_path, encoded(), later=30).warnings == ("odd",)


def test_a_simulated_one_stays_simulated_and_has_no_age(tmp_path: Path) -> None:
    simulated = replace(FULL, source=Source(kind="simulation", location="x", simulated=True))
    back = load(tmp_path, encoded(simulated), later=1e6)
    assert back.source.simulated is True
    assert back.warnings == ("odd",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "truncated"),
        (encoded()[:-40], "truncated"),
        (b"not json", "malformed"),
        (b"[]", "Expected `object`"),
        (b"{}", "schema None"),
        (b"\xff\xfe{}", "malformed"),
        (encoded(kind="heatmap"), "kind 'heatmap'"),
        (encoded(schema="gpuctl/v9"), "schema 'gpuctl/v9'"),
        (encoded(taken_at="2025-06-01T12:00:00"), "no offset from UTC"),
        (encoded(taken_at="noon"), "taken_at"),
        (encoded(taken_at=...), "taken_at"),
        (encoded(gpus={}), "$.gpus"),
        (encoded(gpus=[{"node": "a"}]), "$.gpus[0]"),
        (encoded(known_nodes=[1]), "$.known_nodes[0]"),
        (b'{"schema": "gpuctl/v1", "kind": "snapshot", "x": ' + b"[" * 100_000, "nested"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_file_that_is_none_is_refused_with_the_place(
    tmp_path: Path, data: bytes, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, data)
    assert "is not a snapshot" in caught.value.what
    assert says in str(caught.value.cause)
    assert "gpuctl snapshot" in str(caught.value.hint)


def gpus_with(**changes: Any) -> list[dict[str, Any]]:
    first: dict[str, Any] = msgspec.to_builtins(FULL)["gpus"][0]
    return [first | changes]


WINDOW = {
    "seconds": 300.0,
    "step_seconds": 30.0,
    "samples": 11,
    "span_seconds": 300.0,
    "min_pct": 95.0,
    "mean_pct": 96.0,
    "max_pct": 97.0,
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"utilization_pct": 1980.0}, "utilization_pct 1980"),
        ({"utilization_pct": -1.0}, "utilization_pct -1"),
        ({"memory_used_mib": -5.0}, "memory_used_mib -5"),
        ({"window": WINDOW | {"step_seconds": 0.0}}, "window"),
        ({"window": WINDOW | {"max_pct": 400.0}}, "window"),
    ],
)
def test_impossible_figures_are_refused_and_name_the_card(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, encoded(gpus=gpus_with(**changes)))
    assert "n1/0" in str(caught.value.cause)
    assert says in str(caught.value.cause)


def test_a_missing_file_and_a_folder_say_what_they_are(tmp_path: Path) -> None:
    for file, says in ((tmp_path / "none.json", "No such file"), (tmp_path, "directory")):
        with pytest.raises(UsageError) as caught:
            load_snapshot(str(file), None, now=NOON)
        assert str(file) in caught.value.what
        assert says in str(caught.value.cause)


def test_a_name_that_can_be_no_file_is_refused() -> None:
    with pytest.raises(UsageError):
        load_snapshot("a\0b", None, now=NOON)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), (512 << 20) + 1)
    with pytest.raises(UsageError) as caught:
        load_snapshot(str(huge), None, now=NOON)
    assert "512 MiB" in str(caught.value.cause)


def test_closed_stdin_is_said() -> None:
    with pytest.raises(UsageError) as caught:
        load_snapshot("-", None, now=NOON)
    assert "stdin" in caught.value.what


def test_as_a_source_it_has_no_past_and_no_raw_series() -> None:
    source = SnapshotSource(FULL)
    want = Want.by(Policy())
    assert source.read(want) is FULL
    explanation = source.explain("n1", 0, want)
    assert explanation.gpu.utilization_pct == 96
    assert explanation.trace.kept == []
    assert explanation.notes
    with pytest.raises(UsageError):
        source.history("util", timedelta(hours=1), timedelta(minutes=1), want)
    with pytest.raises(UsageError) as caught:
        source.explain("n1", 5, want)
    assert "n1/0" in str(caught.value.cause)
