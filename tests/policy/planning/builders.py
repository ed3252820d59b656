"""Small problems, written as a sentence: devices with what runs on them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from gpuctl.policy.planning import (
    DeviceSpec,
    GpuSpec,
    GroupSpec,
    ItemSpec,
    Move,
    Params,
    Problem,
    violations,
)


def an_item(name: str, load: float, mem_mib: float = 1000, cost: float = 1, **fields) -> dict:
    """Fields of an item; the device it is given to fills in the rest."""
    return {
        "id": name,
        "kind": "pod",
        "load": load,
        "mem_mib": mem_mib,
        "cost": cost,
        **fields,
    }


def a_gpu(name: str, *items: dict, node: str | None = None, **fields) -> tuple:
    """A whole GPU of 100 points and 10,000 MiB on a node of its own, with these items."""
    gpu = {"node": node or f"node-{name}", "model": "A100", "cap": 100.0}
    balance = fields.pop("balance", True)
    gpu.update({key: fields.pop(key) for key in ("model", "cap") if key in fields})
    device = DeviceSpec(id=name, gpu=name, **{"mem_mib": 10_000, **gpu, **fields})
    residents = [ItemSpec(device=name, **item) for item in items]
    return GpuSpec(id=name, balance=balance, **gpu), device, residents


def a_problem(*gpus: tuple, groups: Iterable[GroupSpec] = (), **params) -> Problem:
    """All of it together."""
    return Problem(
        gpus=tuple(gpu for gpu, _, _ in gpus),
        devices=tuple(device for _, device, _ in gpus),
        items=tuple(item for _, _, residents in gpus for item in residents),
        groups=tuple(groups),
        params=Params(**params),
    )


def all_valid_plans(problem: Problem) -> Iterable[list[Move]]:
    """Every valid plan of a small problem, without waves."""
    devices = [device.id for device in problem.devices]
    movable = [item for item in problem.items if item.movable]
    for targets in product(devices, repeat=len(movable)):
        plan = [
            Move(item.id, item.device, target)
            for item, target in zip(movable, targets, strict=True)
            if target != item.device
        ]
        if not violations(problem, plan):
            yield plan


def after(problem: Problem, moves: Iterable[Move]) -> Problem:
    """The problem once these moves are made."""
    target = {move.item: move.target for move in moves}
    return Problem(
        devices=problem.devices,
        gpus=problem.gpus,
        groups=problem.groups,
        params=problem.params,
        items=tuple(
            ItemSpec(
                **{
                    **{name: getattr(item, name) for name in ItemSpec.__slots__},
                    "device": target.get(item.id, item.device),
                }
            )
            for item in problem.items
        ),
    )
