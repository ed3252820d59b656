"""Makes planning problems of the shipped families in any size, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gpuctl.policy.planning import DeviceSpec, GpuSpec, GroupSpec, ItemSpec, Params, Problem

_MEM = {"A100-80G": 81920, "H100-80G": 81559, "L40S": 46068}
_CAP = {"A100-80G": 100, "H100-80G": 200, "L40S": 50}
_WHOLE = frozenset[str | None]({None})
_SLICES = {"1g.10gb": (14, 9728), "2g.20gb": (28, 19968), "3g.40gb": (42, 40192)}
_LAYOUTS = (
    ("1g.10gb",) * 7,
    ("2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"),
    ("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"),
    (),
)


class _Cluster:
    """A problem under construction."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)  # noqa: S311 - test data
        self.gpus: list[GpuSpec] = []
        self.devices: list[DeviceSpec] = []
        self.items: list[ItemSpec] = []
        self.groups: list[GroupSpec] = []

    def half(self, low: float, high: float) -> float:
        """A load: a multiple of 0.5."""
        return round(self.dice.uniform(low, high) * 2) / 2

    def gpu(self, node: int, slot: int, model: str = "A100-80G", **fields: float) -> str:
        name = f"n{node:04}/g{slot}"
        where = {"node": f"n{node:04}", "model": model, "cap": _CAP[model]}
        self.gpus.append(GpuSpec(id=name, **where))
        self.devices.append(
            DeviceSpec(id=name, gpu=name, mem_mib=_MEM[model], **{**where, **fields})
        )
        return name

    def mig(self, node: int, slot: int, layout: tuple[str, ...]) -> list[DeviceSpec]:
        name = f"n{node:04}/g{slot}"
        where = {"node": f"n{node:04}", "model": "A100-80G"}
        self.gpus.append(GpuSpec(id=name, cap=100, **where))
        made = [
            DeviceSpec(
                id=f"{name}/{profile}.{number}",
                gpu=name,
                profile=profile,
                slots=1,
                cap=_SLICES[profile][0],
                mem_mib=_SLICES[profile][1],
                **where,
            )
            for number, profile in enumerate(layout)
        ]
        self.devices.extend(made)
        return made

    def item(self, device: str, load: float, mem: int, **fields: object) -> None:
        vm = self.dice.random() < 0.08
        kind = "vm" if vm else "pod"
        cost = 3.0 if vm else self.dice.choice((1.0, 1.0, 1.0, 1.5))
        number = len(self.items) + 1
        known = {"cost": cost, "profiles": _WHOLE, **fields}
        self.items.append(
            ItemSpec(f"{kind}-{number:05}", kind, device, load=load, mem_mib=mem, **known)
        )

    def fill(self, device: str, total: float, count: int, mem: tuple[int, int], **fields) -> None:
        """Items that bring about `total` points together, of uneven size."""
        shares = [self.dice.uniform(0.6, 1.4) for _ in range(count)]
        for share in shares:
            load = max(0.5, round(2 * total * share / sum(shares)) / 2)
            group = self.dice.choice(self.groups).id if self.groups else None
            self.item(device, load, self.dice.randint(*mem), **{"group": group, **fields})

    def problem(self, **params: object) -> Problem:
        return Problem(
            devices=tuple(self.devices),
            gpus=tuple(self.gpus),
            items=tuple(self.items),
            groups=tuple(self.groups),
            params=Params(**params),
        )


def hk_night(nodes: int, per_node: int, seed: int) -> Problem:
    """Training pinned on most GPUs, inference piled on a few, some nearly empty."""
    c = _Cluster(seed)
    total = nodes * per_node
    kinds = ["hot"] * max(1, total // 11) + ["idle"] * (total // 5)
    kinds += ["pinned"] * (total - len(kinds))
    c.dice.shuffle(kinds)
    for number in range(max(6, total // 6)):
        c.groups.append(GroupSpec(f"svc-{number:03}", max_moves=c.dice.choice((None, 2, 3))))
    for place, kind in enumerate(kinds):
        node, slot = divmod(place, per_node)
        base = {"hot": c.half(20, 31), "idle": 0.0, "pinned": c.half(38, 58)}[kind]
        mem = int(base * c.dice.uniform(400, 900))
        name = c.gpu(node, slot, base_load=base, base_mem_mib=mem)
        if kind == "hot":
            c.fill(name, c.half(95.5, 97) - base, 4, (5500, 11700))
        elif kind == "idle":
            c.fill(name, c.half(11, 20), 1, (5000, 9000))
        else:
            c.fill(name, c.half(4, 19), c.dice.choice((1, 1, 2)), (4000, 8900))
    return c.problem()


def three_full_five_idle(nodes: int, per_node: int, seed: int) -> Problem:
    """Three of eight nodes full, the others next to empty."""
    c = _Cluster(seed)
    full = max(1, round(nodes * 3 / 8))
    for node in range(nodes):
        for slot in range(per_node):
            base = 30.0 if node < full and c.dice.random() < 0.7 else 0.0
            name = c.gpu(node, slot, base_load=base, base_mem_mib=9000 if node < full else 0)
            if node < full:
                c.fill(name, c.half(96.5, 98) - base, c.dice.choice((3, 3, 4)), (9000, 18700))
            elif c.dice.random() < 0.25:
                c.fill(name, c.half(3, 8), 1, (8000, 9000))
    return c.problem()


def power_law(nodes: int, per_node: int, seed: int) -> Problem:
    """Many small items, few large ones; nothing need be hot."""
    c = _Cluster(seed)
    for node in range(nodes):
        for slot in range(per_node):
            base = c.half(5, 12) if c.dice.random() < 0.25 else 0.0
            name = c.gpu(node, slot, base_load=base, base_mem_mib=int(base * 300))
            for _ in range(c.dice.choice((1, 2, 3, 3, 4, 11))):
                load = min(40.0, round(2 * 3 * c.dice.paretovariate(1.3)) / 2)
                c.item(name, load, int(2400 + 250 * load))
    return c.problem()


def mig_mixed(nodes: int, per_node: int, seed: int) -> Problem:
    """Slices of several sizes beside whole GPUs; an item fits its profile or a larger one."""
    c = _Cluster(seed)
    for node in range(nodes):
        for slot in range(per_node):
            layout = _LAYOUTS[(node * per_node + slot) % len(_LAYOUTS)]
            if not layout:
                c.fill(c.gpu(node, slot), c.half(20, 60), c.dice.choice((1, 2)), (8000, 14000))
            for device in c.mig(node, slot, layout) if layout else ():
                if c.dice.random() < 0.7:
                    _slice_item(c, device)
    return c.problem()


def _slice_item(c: _Cluster, device: DeviceSpec) -> None:
    sizes = list(_SLICES)
    allowed: set[str | None] = set(sizes[sizes.index(str(device.profile)) :])
    if c.dice.random() < 0.3:
        allowed.add(None)
    hot = c.dice.random() < 0.2
    load = c.half(0.92, 0.97) * device.cap if hot else c.dice.uniform(0.1, 0.6) * device.cap
    c.item(
        device.id,
        round(load * 2) / 2,
        c.dice.randint(3000, int(device.mem_mib * 0.85)),
        profiles=frozenset(allowed),
    )


def tight_memory(nodes: int, per_node: int, seed: int) -> Problem:
    """Memory nearly full everywhere: who comes has to wait for someone who leaves."""
    c = _Cluster(seed)
    for node in range(nodes):
        for slot in range(per_node):
            name = c.gpu(node, slot)
            total = c.half(91, 94) if (node + slot) % 4 == 0 else c.half(18, 55)
            count = c.dice.choice((3, 3, 4, 5))
            part = int(c.dice.uniform(0.8, 0.94) * 81920 / count)
            c.fill(name, total, count, (int(part * 0.7), int(part * 1.05)))
    return c.problem()


def greedy_trap(nodes: int, per_node: int, seed: int) -> Problem:
    """The coolest GPUs have no memory left and the largest item is the wrong one."""
    c = _Cluster(seed)
    for node in range(nodes):
        for slot in range(per_node):
            kind = (node * per_node + slot) % 5
            if kind == 3:
                c.gpu(node, slot, base_load=c.half(3, 7), base_mem_mib=70000)
                continue
            base = c.half(44, 50) if kind == 4 else 0.0
            name = c.gpu(node, slot, base_load=base, base_mem_mib=20000 if base else 0)
            if kind == 0:
                c.item(name, c.half(42, 46), 30000, cost=6.0)
                for load in (19, 17, 13):
                    c.item(name, load + c.half(-1, 1), 7000, cost=1.5)
            elif kind == 1:
                c.item(name, c.half(56, 60), 52000, cost=1.0)
                c.item(name, c.half(32, 35), 20000, cost=1.0)
            elif kind == 2:
                c.item(name, c.half(7, 11), 38000, cost=1.0)
                c.item(name, c.half(5, 8), 36000, cost=1.5)
            else:
                c.item(name, c.half(9, 13), 9000, cost=1.0)
    return c.problem()


def groups(nodes: int, per_node: int, seed: int) -> Problem:
    """Disruption budgets and members that keep apart."""
    c = _Cluster(seed)
    services = [
        GroupSpec("svc-00", max_moves=1, max_per_gpu=1),
        GroupSpec("svc-01", max_moves=2, max_per_node=2, max_per_gpu=1),
        GroupSpec("svc-02", max_moves=nodes, max_per_node=1),
    ]
    c.groups.extend(services)
    for node in range(nodes):
        for slot in range(per_node):
            name = c.gpu(node, slot)
            hot = c.dice.random() < 0.5
            count = c.dice.choice((2, 4, 4)) if hot else c.dice.choice((2, 4))
            shares = [c.dice.uniform(0.7, 1.3) for _ in range(count)]
            total = c.half(94.5, 96) if hot else c.half(10, 50)
            for number, share in enumerate(shares):
                load = max(0.5, round(2 * total * share / sum(shares)) / 2)
                named = number < 2 or (number == 2 and c.dice.random() < 0.3)
                group = services[number].id if named else None
                if number >= len(services) or group is None:
                    group = None
                c.item(name, load, c.dice.randint(5600, 13200), group=group)
    return c.problem()


def hetero(nodes: int, per_node: int, seed: int) -> Problem:
    """Three GPU models of different strength; some items are bound to a model."""
    c = _Cluster(seed)
    models = ("A100-80G", "L40S", "H100-80G")
    bindings = (None, None, None, None, frozenset({"H100-80G", "A100-80G"}))
    for node in range(nodes):
        model = models[node % 3]
        for slot in range(per_node):
            name = c.gpu(node, slot, model)
            level = {"A100-80G": (8, 36), "L40S": (15, 36), "H100-80G": (93, 96)}[model]
            total = c.half(*level) * _CAP[model] / 100
            own = frozenset({model})
            allowed = c.dice.choice((*bindings, own))
            if allowed is not None and model not in allowed:
                allowed = None
            c.fill(name, total, c.dice.choice((2, 3, 4)), (5000, 11000), models=allowed)
    return c.problem()


FAMILIES: dict[str, Callable[[int, int, int], Problem]] = {
    "hk-night": hk_night,
    "three-full-five-idle": three_full_five_idle,
    "power-law": power_law,
    "mig-mixed": mig_mixed,
    "tight-memory": tight_memory,
    "greedy-trap": greedy_trap,
    "groups": groups,
    "hetero": hetero,
}
