"""Scenarios from the package or from a file, checked so that a world can rely on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpuctl.errors import ConfigError
from gpuctl.sim.scenario import GpuSpec, MigSpec, Place, Scenario, Sine, Steps, Workload

DEFAULT_SCENARIO = "hk-night"
SCENARIO_FOLDER = Path(__file__).parent / "scenarios"

_PROFILE = re.compile(r"[1-9]g\.[0-9]+gb(\+[a-z.]+)?")


def scenario_names() -> tuple[str, ...]:
    """The built-in scenarios, the default one first."""
    names = sorted(path.stem for path in SCENARIO_FOLDER.glob("*.json"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_SCENARIO))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A built-in scenario by name, or any by its file (a path, or a name that ends in .json).

    Raises ConfigError when there is none or when it contradicts itself.
    """
    path = _path(name_or_path)
    try:
        scenario = msgspec.json.decode(path.read_bytes(), type=Scenario)
    except OSError as exc:
        raise ConfigError(
            f"scenario {path} can't be read",
            cause=exc.strerror or str(exc),
            hint=_known(),
        ) from exc
    except msgspec.DecodeError as exc:
        raise ConfigError(
            f"scenario {path} is not valid",
            cause=str(exc),
            hint="compare it with a built-in one: gpuctl/sim/scenarios/",
        ) from exc
    problem = next(problems(scenario), None)
    if problem is not None:
        raise ConfigError(
            f"scenario {path} contradicts itself",
            cause=problem,
            hint="correct the file; every workload must fit where it runs",
        )
    return scenario


def _path(name_or_path: str | Path) -> Path:
    if isinstance(name_or_path, Path) or name_or_path.endswith(".json") or "/" in name_or_path:
        return Path(name_or_path)
    if name_or_path not in scenario_names():
        raise ConfigError(
            f"there is no scenario {name_or_path!r}",
            cause="no built-in scenario has that name",
            hint=_known(),
        )
    return SCENARIO_FOLDER / f"{name_or_path}.json"


def _known() -> str:
    return f"built-in: {', '.join(scenario_names())}; or give the path of a .json file"


def problems(scenario: Scenario) -> Iterator[str]:
    """What is impossible in a scenario, each as a clause for a message."""
    if scenario.epoch.tzinfo is None:
        yield f"epoch {scenario.epoch.isoformat()} has no time zone"
    if not scenario.nodes:
        yield "it has no nodes"
    yield from _twice("node", (node.name for node in scenario.nodes))
    yield from _twice("workload", (workload.id for workload in scenario.workloads))
    for node in scenario.nodes:
        for index, gpu in enumerate(node.gpus):
            yield from _gpu_problems(f"{node.name}/{index}", gpu)
    for workload in scenario.workloads:
        yield from _workload_problems(workload)
    yield from _placement_problems(scenario)


def _twice(what: str, names: Iterator[str]) -> Iterator[str]:
    for name, times in Counter(names).items():
        if times > 1:
            yield f"{what} {name} is there {times} times"


def _gpu_problems(where: str, gpu: GpuSpec) -> Iterator[str]:
    if gpu.usable_mib <= 0 or gpu.reserved_mib < 0:
        yield f"{where}: reserved_mib leaves nothing of fb_mib {gpu.fb_mib}"
    if gpu.slots < 1:
        yield f"{where}: slots is {gpu.slots}, a card has at least one"
    if gpu.mig is None:
        return
    yield from _twice(f"{where}: MIG instance", (str(instance.id) for instance in gpu.mig))
    for instance in gpu.mig:
        if not _PROFILE.fullmatch(instance.profile):
            yield f"{where}: {instance.profile!r} is not a MIG profile such as 3g.40gb"
    if sum(instance.fb_mib for instance in gpu.mig) > gpu.fb_mib:
        yield f"{where}: its MIG instances have more memory than the card"


def _workload_problems(workload: Workload) -> Iterator[str]:
    name = workload.id
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest) or "/" in rest:
        yield f"workload {name!r} is neither NAMESPACE/POD nor vm/ID"
    if (workload.kind == "vm") != (namespace == "vm"):
        yield f"workload {name!r} of kind {workload.kind}: vm/ID is for VMs and only for them"
    if not 0 <= workload.load_pct <= 100:
        yield f"{name}: load_pct {workload.load_pct:g} is outside 0..100"
    if workload.memory_mib < 0:
        yield f"{name}: memory_mib {workload.memory_mib} is negative"
    if not workload.placements:
        yield f"{name}: it runs nowhere, placements is empty"
    yield from _twice(f"{name}: placement", (str(place) for place in workload.placements))
    shape = workload.shape
    if isinstance(shape, Steps):
        times = [level.until_seconds for level in shape.earlier]
        if times != sorted(times):
            yield f"{name}: the steps of its shape are not in the order of time"
    if isinstance(shape, Sine) and shape.period_seconds <= 0:
        yield f"{name}: period_seconds {shape.period_seconds:g} of its shape is not above 0"


def _placement_problems(scenario: Scenario) -> Iterator[str]:
    devices = dict(devices_of(scenario))
    tenants: dict[Place, list[Workload]] = {}
    for workload in scenario.workloads:
        for place in workload.placements:
            if place not in devices:
                yield f"{workload.id} runs on {place}, and there is no such device"
            tenants.setdefault(place, []).append(workload)
    for place, there in tenants.items():
        if place in devices:
            room, slots = capacity(devices[place])
            needed = sum(workload.memory_mib for workload in there)
            if needed > room:
                yield f"{place}: its workloads need {needed} MiB, it has {room}"
            if len(there) > slots:
                yield f"{place}: {len(there)} workloads on {slots} slots"


def devices_of(scenario: Scenario) -> Iterator[tuple[Place, GpuSpec | MigSpec]]:
    """Every device that a workload can run on: whole cards, and instances where MIG is on."""
    for node in scenario.nodes:
        for index, gpu in enumerate(node.gpus):
            if gpu.mig is None:
                yield Place(node.name, index), gpu
            else:
                for instance in gpu.mig:
                    yield Place(node.name, index, instance.id), instance


def capacity(device: GpuSpec | MigSpec) -> tuple[int, int]:
    """Memory in MiB and slots that a device has for workloads. A MIG instance takes one."""
    if isinstance(device, MigSpec):
        return device.fb_mib, 1
    return device.usable_mib, device.slots
