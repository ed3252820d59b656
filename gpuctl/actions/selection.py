"""Which pods an eviction is about, and which of them a rule protects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuctl.errors import UsageError, shorten
from gpuctl.model.gpu import Gpu
from gpuctl.model.plan import DeviceRef
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.model.workload import Placement, Workload, WorkloadClass
from gpuctl.policy.attribution import attributed
from gpuctl.policy.classes import PROTECTION_RULES, owner_kind
from gpuctl.policy.selectors import Selector
from gpuctl.policy.verdict import Verdict, decisive

#: Rule -> the option that overrides it, and that option's help. A rule without one always holds.
OVERRIDES: dict[str, tuple[str, str]] = {
    "protected-namespace": ("--force-protected-namespace", "pods of protected namespaces"),
    "critical-priority": ("--force-critical", "pods of critical priority"),
    "not-evictable": ("--force-not-evictable", 'pods annotated gpuctl.io/evictable: "false"'),
    "node-bound": ("--force-daemonset", "pods of a DaemonSet, which come back to their node"),
    "bare-pod": ("--force-unmanaged", "pods without an owner, which nothing starts again"),
    "stays-by-default": ("--force-stateful", "pods of training, a Job or a StatefulSet"),
    "emptydir": ("--delete-emptydir-data", "pods with an emptyDir on disk, whose data is lost"),
}
_MIRROR_OWNER = "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRequest:
    """What a person asked for: names, or conditions that must all hold. `most`: at most so many."""

    pods: tuple[str, ...] = ()
    gpu: str | None = None
    node: str | None = None
    selector: Selector | None = None
    namespace: str | None = None
    workload_class: WorkloadClass | None = None
    most: int | None = None
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What Kubernetes knows of a pod beyond the model.

    `owner_uid` is its controller's ("" for a bare pod); `disk_volumes` are emptyDirs on disk.
    """

    uid: str = ""
    owner_uid: str = ""
    disk_volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that was asked for, with the decisive rule; `source_pct` is its device's load."""

    workload: Workload
    verdict: Verdict
    source: DeviceRef | None
    source_pct: float | None


@dataclass(frozen=True, slots=True)
class Selected:
    """Who is to be evicted, in this order; who may not be; what else a person should know."""

    chosen: tuple[Candidate, ...]
    refused: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()


def select(
    request: EvictionRequest,
    snapshot: Snapshot,
    policy: Policy,
    facts: Mapping[str, PodFacts],
) -> Selected:
    """The pods that match, judged. Raises UsageError for a name that fits several pods, or a GPU
    that there is none of.

    Named pods keep their order; others go by priority, the lowest first, then by the load they
    cause, the highest first, then by name.
    """
    everyone = {one.id: one for one in attributed(snapshot, policy)}
    gpus = {gpu.uuid: gpu for gpu in snapshot.gpus}
    notes: list[str] = []
    if request.pods:
        names = [_resolved(name, request.namespace, everyone) for name in request.pods]
        wanted = [
            everyone.get(name, Workload(id=name, kind="pod")) for name in dict.fromkeys(names)
        ]
    else:
        matching = [one for one in everyone.values() if _matches(one, request)]
        vms = sorted(one.id for one in matching if one.kind != "pod")
        if vms:
            notes.append(f"not pods, and left where they are: {shorten(vms)}")
        wanted = sorted((one for one in matching if one.kind == "pod"), key=_cheapest_first)
    if request.workload_class is not None:
        wanted = [one for one in wanted if one.workload_class == request.workload_class]
    judged = [
        Candidate(
            one, _judged(one, everyone, policy, facts, request.overrides), *_device(one, gpus)
        )
        for one in wanted
    ]
    chosen = [one for one in judged if one.verdict.allowed]
    refused = tuple(one for one in judged if not one.verdict.allowed)
    if request.most is not None and len(chosen) >= request.most:
        if len(chosen) > request.most:
            notes.append(f"{len(chosen) - request.most} more would match and are left by --max")
        if refused:  # there was no need of them
            notes.append(f"protected: {shorten([one.workload.id for one in refused])}")
        chosen, refused = chosen[: request.most], ()
    return Selected(tuple(chosen), refused, tuple(notes))


def _cheapest_first(one: Workload) -> tuple[int, float, str]:
    return one.priority or 0, -(one.load_pct or 0.0), one.id


def _resolved(name: str, namespace: str | None, everyone: Mapping[str, Workload]) -> str:
    """`NAMESPACE/POD` for a name with or without its namespace."""
    if "/" in name:
        return name
    if namespace is not None:
        return f"{namespace}/{name}"
    found = sorted(known for known in everyone if known.partition("/")[2] == name)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} pods are called {name}",
            cause=f"they are {shorten(found)}",
            hint=f"say which: {found[0]}, or add -n NAMESPACE",
        )
    return found[0] if found else f"default/{name}"


def _matches(one: Workload, request: EvictionRequest) -> bool:
    places = one.placements
    if request.gpu is not None:
        node, _, index = request.gpu.rpartition("/")
        if not any(p.node == node and str(p.gpu) == index for p in places):
            return False
    if request.node is not None and all(p.node != request.node for p in places):
        return False
    if request.selector is not None and not (
        one.kind == "pod" and request.selector.matches(one.labels)
    ):
        return False
    return request.namespace is None or one.namespace == request.namespace


def find_target(request: EvictionRequest, snapshot: Snapshot) -> Gpu | None:
    """The GPU of --gpu. Raises UsageError when there is no such GPU or node."""
    nodes = {gpu.node for gpu in snapshot.gpus} | {
        place.node for one in snapshot.workloads for place in one.placements
    }
    if request.node is not None and request.node not in nodes:
        raise _no_such("node", request.node, sorted(nodes))
    if request.gpu is None:
        return None
    found = next((gpu for gpu in snapshot.gpus if gpu.address == request.gpu), None)
    if found is None:
        raise _no_such("GPU", request.gpu, sorted(gpu.address for gpu in snapshot.gpus))
    return found


def _no_such(what: str, name: str, known: Sequence[str]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return UsageError(
        f"there is no {what} {name} with GPU workloads or metrics",
        cause=f"known: {shorten(known)}" if known else "none is known",
        hint=f"did you mean {near[0]}?" if near else "gpuctl heatmap -o name lists them",
    )


# -- judging ---------------------------------------------------------------------------------------


def _judged(
    one: Workload,
    everyone: Mapping[str, Workload],
    policy: Policy,
    facts: Mapping[str, PodFacts],
    overrides: frozenset[str],
) -> Verdict:
    if one.kind != "pod":
        return Verdict(False, "not-a-pod", "only pods can be evicted")
    if one.id not in everyone:
        return Verdict(False, "no-such-pod", "there is no such pod with a GPU")
    verdicts = [rule(one, policy) for rule in PROTECTION_RULES]
    verdicts.append(_loses_data(facts.get(one.id, PodFacts())))
    left = [verdict for verdict in verdicts if not _is_overridden(verdict, one, overrides)]
    return decisive(left) or Verdict(True, "movable", _overridden(verdicts, left))


def _is_overridden(verdict: Verdict, one: Workload, overrides: frozenset[str]) -> bool:
    if owner_kind(one) == _MIRROR_OWNER:  # the API can't stop a kubelet's own pod
        return False
    return verdict.is_refusal and verdict.rule in overrides


def _overridden(verdicts: Sequence[Verdict], left: Sequence[Verdict]) -> str:
    rules = [verdict.rule for verdict in verdicts if verdict not in left]
    return f"overridden: {', '.join(rules)}" if rules else "no rule protects it"


def _loses_data(facts: PodFacts) -> Verdict:
    """An emptyDir in memory is shared memory, not data: nearly every model server mounts one."""
    names = shorten(facts.disk_volumes)
    return Verdict(not names, "emptydir", f"the data of its emptyDir would be lost ({names})")


def way_out(verdict: Verdict) -> str:
    """The reason with the option that overrides the rule, where there is one."""
    option = OVERRIDES.get(verdict.rule)
    return f"{verdict.reason}; {option[0]} evicts it all the same" if option else verdict.reason


# -- devices ---------------------------------------------------------------------------------------


def _device(one: Workload, gpus: Mapping[str, Gpu]) -> tuple[DeviceRef | None, float | None]:
    """The first device that it runs on, with its utilization."""
    place = next(iter(one.placements), None)
    if place is None:
        return None, None
    ref = DeviceRef(node=place.node, gpu=place.gpu, mig_id=place.mig_id)
    return ref, utilization_at(place, gpus.values())


def utilization_at(place: Placement, gpus: Iterable[Gpu]) -> float | None:
    """Present utilization of a device, None where it is not known."""
    gpu = next((gpu for gpu in gpus if gpu.uuid == place.uuid), None)
    if gpu is None or place.mig_id is None:
        return gpu.utilization_pct if gpu is not None else None
    found = (one.utilization_pct for one in gpu.mig if one.id == place.mig_id)
    return next(found, None)
