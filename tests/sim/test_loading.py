"""Broken scenario files are refused with a message that says what to correct."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpuctl.errors import ConfigError
from gpuctl.exitcodes import ExitCode
from gpuctl.sim.world import World


def small() -> dict[str, Any]:
    """A valid scenario of one card and one pod."""
    return {
        "name": "small",
        "title": "one card",
        "epoch": "2025-03-01T00:00:00+08:00",
        "seed": 1,
        "cluster": "c",
        "nodes": [{"name": "n1", "model": "NVIDIA L40S", "gpus": [{"fb_mib": 46068}]}],
        "workloads": [
            {
                "id": "ns/pod-0",
                "kind": "pod",
                "class": "inference",
                "placements": [{"node": "n1", "gpu": 0}],
                "load_pct": 40,
                "memory_mib": 8192,
            }
        ],
    }


def written(folder: Path, document: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_file_is_loaded_and_its_epoch_is_in_utc(tmp_path: Path) -> None:
    path = written(tmp_path, small())
    for given in (path, str(path)):
        world = World.load(given)
        assert world.epoch.isoformat() == "2025-02-28T16:00:00+00:00"
        assert [one.id for one in world.tenants_of("n1", 0)] == ["ns/pod-0"]


def test_unknown_name_lists_the_built_in_ones() -> None:
    with pytest.raises(ConfigError, match="no scenario 'hk-nite'") as caught:
        World.load("hk-nite")
    assert caught.value.exit_code == ExitCode.USAGE
    assert "hk-night, mig-mixed, three-full-five-idle" in (caught.value.hint or "")


def test_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json can't be read") as caught:
        World.load(tmp_path / "none.json")
    assert caught.value.cause == "No such file or directory"


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"colour": "red"}, "unknown field `colour`"),
        ({"epoch": "noon"}, r"\$\.epoch"),
        ({"epoch": "2025-03-01T00:00:00"}, "has no time zone"),
        ({"nodes": []}, "has no nodes"),
    ],
)
def test_impossible_scenario_is_refused(tmp_path: Path, change: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        World.load(written(tmp_path, {**small(), **change}))
    assert re.search(cause, caught.value.cause or "")


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"id": "pod"}, "neither NAMESPACE/POD nor vm/ID"),
        ({"id": "vm/7"}, "vm/ID is for VMs"),
        ({"load_pct": 140}, "load_pct 140 is outside 0..100"),
        ({"memory_mib": -1}, "negative"),
        ({"memory_mib": 46000}, "its workloads need 46000 MiB, it has 45452"),
        ({"placements": []}, "it runs nowhere"),
        ({"placements": [{"node": "n1", "gpu": 3}]}, "n1/3, and there is no such device"),
        ({"placements": [{"node": "n1", "gpu": 0, "mig_id": 5}]}, "n1/0:5"),
        ({"placements": [{"node": "n1", "gpu": 0}] * 2}, "placement n1/0 is there 2 times"),
        ({"shape": {"kind": "square"}}, "square"),
        (
            {
                "shape": {
                    "kind": "steps",
                    "earlier": [
                        {"until_seconds": -60, "load_pct": 1},
                        {"until_seconds": -90, "load_pct": 2},
                    ],
                }
            },
            "not in the order of time",
        ),
        ({"shape": {"kind": "sine", "amplitude_pct": 3, "period_seconds": 0}}, "period_seconds"),
    ],
)
def test_impossible_workload_is_refused(tmp_path: Path, change: dict[str, Any], cause: str) -> None:
    document = small()
    document["workloads"][0] |= change
    with pytest.raises(ConfigError) as caught:
        World.load(written(tmp_path, document))
    assert re.search(cause, caught.value.cause or "")


@pytest.mark.parametrize(
    ("gpu", "cause"),
    [
        ({"fb_mib": 500}, "reserved_mib leaves nothing"),
        ({"fb_mib": 46068, "slots": 0}, "a card has at least one"),
        (
            {"fb_mib": 46068, "mig": [{"id": 1, "profile": "half", "fb_mib": 1}]},
            "not a MIG profile",
        ),
        (
            {"fb_mib": 46068, "mig": [{"id": 1, "profile": "1g.6gb", "fb_mib": 6000}] * 2},
            "MIG instance 1 is there 2 times",
        ),
        (
            {"fb_mib": 4000, "mig": [{"id": 1, "profile": "1g.6gb", "fb_mib": 6000}]},
            "more memory than the card",
        ),
    ],
)
def test_impossible_card_is_refused(tmp_path: Path, gpu: dict[str, Any], cause: str) -> None:
    document = small()
    document["nodes"][0]["gpus"] = [gpu]
    with pytest.raises(ConfigError) as caught:
        World.load(written(tmp_path, document))
    assert re.search(cause, caught.value.cause or "")


def test_text_that_is_not_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not valid"):
        World.load(written(tmp_path, "{nodes"))


def test_names_used_twice_are_refused(tmp_path: Path) -> None:
    document = small()
    document["workloads"] *= 2
    with pytest.raises(ConfigError) as caught:
        World.load(written(tmp_path, document))
    assert caught.value.cause == "workload ns/pod-0 is there 2 times"
