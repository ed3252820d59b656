"""Which GPUs and MIG instances a new workload could get, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from gpuctl.model.gpu import GpuState
from gpuctl.model.quantities import memory_words
from gpuctl.model.score import Request
from gpuctl.policy.scoring.survey import Device, Node, age_words
from gpuctl.policy.verdict import Verdict

#: free: it can be chosen. hot, memory, taken, lost: it can't. unknown: nobody can say.
Availability = Literal["free", "unknown", "hot", "memory", "taken", "lost"]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node has of the kind that is asked for, and whether that is enough.

    `verdict`: allowed with enough `free` devices; None when only `unknown` ones could make up for
    what is missing; a refusal names the rule.
    """

    devices: tuple[Device, ...]
    free: tuple[Device, ...]
    verdict: Verdict


def availability(device: Device, node: Node, request: Request) -> Availability:
    """Whether one device could be chosen; the first obstacle in the order taken, memory, hot.

    Of a stale card not even its tenants are known.
    """
    if device.at.gpu.state is GpuState.LOST and not node.is_silent:
        return "lost"
    if device.at.gpu.state in (GpuState.LOST, GpuState.STALE):
        return "unknown"
    if _is_taken(device, node):
        return "taken"
    free = device.free_mib
    if request.memory_mib is not None and free is not None and free < request.memory_mib:
        return "memory"
    if device.unknown_because is not None:
        return "unknown"
    return "hot" if device.hot else "free"


def _is_taken(device: Device, node: Node) -> bool:
    """Exclusive devices are free without tenants; shared cards as long as a slot is.

    Where cards are shared and nobody tells the number of slots, there may be one: the scheduler
    counts them, and metrics can't.
    """
    if device.at.instance is not None or not node.is_shared:
        return device.tenants > 0
    slots = device.at.gpu.slots
    return slots is not None and device.tenants >= slots


def offer(node: Node, request: Request) -> Offer:
    """What a node could give to a workload, with the reason where it can't."""
    kind = _of_kind(node, request)
    if node.is_silent:
        return Offer(kind, (), _silent(node, kind, request))
    missing = _missing_kind(node, kind, request)
    if missing is not None:
        return Offer(kind, (), missing)
    found: dict[Availability, list[Device]] = {}
    for device in kind:
        found.setdefault(availability(device, node, request), []).append(device)
    free, unknown = found.get("free", []), found.get("unknown", [])
    if len(free) >= request.gpus:
        verdict = Verdict(True, "fits", "")
    elif len(free) + len(unknown) >= request.gpus:
        reason = f"{unknown[0].name}: {unknown[0].unknown_because}"
        verdict = Verdict(None, "unknown", reason)
    else:
        verdict = _refusal(node, kind, found, request)
    return Offer(kind, tuple(free), verdict)


def why_not(device: Device, node: Node, found: Availability, request: Request) -> Verdict:
    """The refusal of one device that is neither free nor unknown."""
    match found:
        case "lost":
            xid = device.at.gpu.xid
            return Verdict(False, "lost", "lost" if xid is None else f"lost, XID {xid}")
        case "memory":
            asked, free = request.memory_mib or 0.0, device.free_mib or 0.0
            return Verdict(
                False, "memory", f"{memory_words(asked)} asked for, {memory_words(free)} free"
            )
        case "hot":
            return Verdict(False, "hot", f"it is hot, at {device.load_pct:.0f} %")
        case _ if device.at.instance is not None:
            return Verdict(False, "no-free-instance", "it is in use")
        case _ if node.is_shared:
            slots = device.at.gpu.slots
            return Verdict(False, "no-free-slot", f"all {slots} slots are taken")
        case _:
            return Verdict(False, "no-free-gpu", "it is in use")


def _of_kind(node: Node, request: Request) -> tuple[Device, ...]:
    return tuple(
        device
        for device in node.devices
        if device.at.profile == request.mig_profile and _fits_model(device, request)
    )


def _fits_model(device: Device, request: Request) -> bool:
    glob = request.gpu_model
    model = device.at.gpu.model or ""
    return glob is None or fnmatchcase(model.lower(), glob.lower())


def _silent(node: Node, kind: Sequence[Device], request: Request) -> Verdict:
    """A node that says nothing may be fine; too few GPUs it has for certain."""
    if node.cards and len(kind) < request.gpus:
        missing = _missing_kind(node, kind, request)
        if missing is not None:
            return missing
    age = node.age_seconds
    words = "no fresh metrics" if age is None else f"metrics {age_words(age)} old"
    return Verdict(None, "unknown", words)


def _missing_kind(node: Node, kind: Sequence[Device], request: Request) -> Verdict | None:
    profile, count = request.mig_profile, len(kind)
    if not any(_fits_model(device, request) for device in node.devices):
        return Verdict(False, "gpu-model", f"no GPU of model {request.gpu_model}")
    if not kind and profile is not None:
        return Verdict(False, "mig-profile", f"no {profile} instance")
    if not kind:
        return Verdict(False, "mig-mode", "all its GPUs are cut into MIG instances")
    if request.shared and profile is None and not node.is_shared:
        return Verdict(False, "not-shared", "its GPUs are not shared")
    if count < request.gpus:
        what = f"{profile} instance" if profile else "GPU"
        return Verdict(
            False, "too-few", f"it has {_count(count, what)}, {request.gpus} are asked for"
        )
    return None


def _refusal(
    node: Node,
    kind: Sequence[Device],
    found: dict[Availability, list[Device]],
    request: Request,
) -> Verdict:
    """The obstacle that is in the way of most: taken first, then memory, then heat."""
    taken = len(found.get("taken", ())) + len(found.get("lost", ()))
    left = len(kind) - taken
    if left < request.gpus:
        return _taken_words(node, kind, found, left, request)
    short = found.get("memory", ())
    if left - len(short) < request.gpus:
        most = max(device.free_mib or 0.0 for device in short)
        asked = memory_words(request.memory_mib or 0.0)
        return Verdict(
            False, "memory", f"{asked} are asked for, the free ones have {memory_words(most)} left"
        )
    hot = len(found.get("hot", ()))
    free = left - len(short)
    what = f"{request.mig_profile} instance" if request.mig_profile else "GPU"
    return Verdict(False, "hot", _hot_words(hot, free, what))


def _hot_words(hot: int, free: int, what: str) -> str:
    if hot < free:
        return f"{hot} of {free} free {what}s {'is' if hot == 1 else 'are'} hot"
    if free == 1:
        return f"the only free {what} is hot"
    return f"both free {what}s are hot" if free == 2 else f"all {free} free {what}s are hot"


def _taken_words(
    node: Node,
    kind: Sequence[Device],
    found: dict[Availability, list[Device]],
    left: int,
    request: Request,
) -> Verdict:
    lost = len(found.get("lost", ()))
    aside = f" ({_count(lost, 'GPU')} lost)" if lost else ""
    if request.mig_profile is not None:
        rule, what = "no-free-instance", f"{request.mig_profile} instance"
        has = f"no {what} free"
    elif node.is_shared:
        rule, what = "no-free-slot", "GPU"
        has = f"no slot free on {_count(len(kind), what)}"
    else:
        rule, what = "no-free-gpu", "GPU"
        many = f"none of its {len(kind)} GPUs is free"
        has = many if len(kind) > 1 else "its only GPU is in use"
    if left:
        has = f"{left} of {_count(len(kind), what)} free, {request.gpus} are asked for"
    return Verdict(False, rule, has + aside)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
