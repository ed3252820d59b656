"""Reads and writes the files under tests/data/plan, and tells their reference results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuctl.policy.planning import (
    DeviceSpec,
    Evaluation,
    GpuSpec,
    GroupSpec,
    ItemSpec,
    Move,
    Params,
    Problem,
)

FOLDER = Path(__file__).parents[2] / "data" / "plan"


def shipped() -> list[Path]:
    """All problem files, by name."""
    return sorted(path for path in FOLDER.glob("*.json") if not path.name.endswith(".opt.json"))


def reference(path: Path) -> dict[str, Any]:
    """The reference result beside a problem file."""
    return json.loads(path.with_name(path.name.replace(".json", ".opt.json")).read_text())


def read(path: Path) -> Problem:
    """The problem in a `gpuctl-plan-instance/1` file."""
    document = json.loads(path.read_text())
    if document["format"] != "gpuctl-plan-instance/1":
        raise ValueError(f"{path} is a {document['format']}, not a gpuctl-plan-instance/1")
    params = dict(document["params"])
    params["move_weight"] = params.pop("lambda")
    return Problem(
        devices=tuple(DeviceSpec(**device) for device in document["devices"]),
        gpus=tuple(GpuSpec(**gpu) for gpu in document["gpus"]),
        items=tuple(_item(item) for item in document["items"]),
        groups=tuple(GroupSpec(**group) for group in document["groups"]),
        params=Params(**params),
    )


def _item(fields: dict[str, Any]) -> ItemSpec:
    models, profiles = fields["models"], fields["profiles"]
    allowed = {
        "models": None if models is None else frozenset(models),
        "profiles": None if profiles is None else frozenset(profiles),
    }
    return ItemSpec(**{**fields, **allowed})


def plan_document(moves: Sequence[Move], predicted: Evaluation) -> dict[str, Any]:
    """A `gpuctl-plan/1` document."""
    return {
        "format": "gpuctl-plan/1",
        "moves": [{"item": move.item, "to": move.target, "wave": move.wave} for move in moves],
        "predicted": {"max": round(predicted.max_pct, 3), "min": round(predicted.min_pct, 3)},
    }


def plan_moves(document: dict[str, Any], problem: Problem) -> list[Move]:
    """The moves of a plan document or of a reference file's `plan`."""
    source = {item.id: item.device for item in problem.items}
    listed = document["moves"] if "moves" in document else document["plan"]
    return [
        Move(each["item"], source[each["item"]], each["to"], each.get("wave")) for each in listed
    ]
