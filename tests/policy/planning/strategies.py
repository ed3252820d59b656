"""Small problems of every kind, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from gpuctl.policy.planning import DeviceSpec, GpuSpec, GroupSpec, ItemSpec, Params, Problem

_LOADS = st.integers(0, 130).map(lambda half: half / 2)
_COSTS = st.sampled_from((0.5, 1.0, 1.5, 3.0))
_LIMITS = st.one_of(st.none(), st.integers(0, 2))


@st.composite
def problems(draw: st.DrawFn, most_gpus: int = 4, most_items: int = 9) -> Problem:
    """Whole GPUs and slices, tight or roomy, with groups, cordons and pinned items."""
    gpus: list[GpuSpec] = []
    devices: list[DeviceSpec] = []
    for number in range(draw(st.integers(2, most_gpus))):
        _add_gpu(draw, number, gpus, devices)
    groups = tuple(
        GroupSpec(f"g{number}", draw(_LIMITS), draw(_LIMITS), draw(_LIMITS)) for number in range(2)
    )
    count = draw(st.integers(1, most_items))
    items = tuple(_item(draw, number, devices) for number in range(count))
    params = Params(
        high=draw(st.sampled_from((60, 80, 90))),
        move_weight=draw(st.sampled_from((0.5, 2.0, 5.0))),
        max_moves=draw(st.sampled_from((None, None, None, 1, 3))),
        node_inflight=draw(st.integers(1, 2)),
        group_inflight=draw(st.integers(1, 2)),
    )
    return Problem(tuple(devices), tuple(gpus), items, groups, params)


def _add_gpu(draw: st.DrawFn, number: int, gpus: list[GpuSpec], devices: list[DeviceSpec]) -> None:
    where = {"node": f"n{number // 2}", "model": draw(st.sampled_from(("A", "A", "B")))}
    cap = 100 if where["model"] == "A" else 50
    name = f"gpu{number}"
    gpus.append(GpuSpec(id=name, cap=cap, balance=draw(st.integers(0, 5)) > 0, **where))
    sliced = draw(st.integers(0, 3)) == 0
    for part in range(2) if sliced else (0,):
        device = DeviceSpec(
            id=f"{name}/{part}" if sliced else name,
            gpu=name,
            cap=cap * 0.42 if sliced else cap,
            mem_mib=draw(st.sampled_from((20, 40, 100))),
            profile="3g" if sliced else None,
            slots=1 if sliced else draw(st.sampled_from((None, None, 3))),
            base_load=draw(st.sampled_from((0, 0, 20))),
            cordoned=draw(st.integers(0, 5)) == 0,
            **where,
        )
        devices.append(device)


def _item(draw: st.DrawFn, number: int, devices: list[DeviceSpec]) -> ItemSpec:
    return ItemSpec(
        id=f"item{number}",
        kind="pod",
        device=draw(st.sampled_from(devices)).id,
        load=draw(_LOADS),
        mem_mib=draw(st.integers(1, 30)),
        cost=draw(_COSTS),
        movable=draw(st.integers(0, 6)) > 0,
        models=draw(st.sampled_from((None, None, frozenset({"A"})))),
        profiles=draw(st.sampled_from((None, None, frozenset({None}), frozenset({"3g"})))),
        nodes=draw(st.sampled_from((None, None, None, frozenset({"n0"})))),
        group=draw(st.sampled_from((None, None, "g0", "g1", "unlisted"))),
    )
