"""The state of the fake cluster: objects with versions, owners, budgets, and time in steps.

Nothing happens by itself unless `settles_at_once` is set: an evicted pod is gone after `step`, its
owner makes another one in `run_owners`, budgets are counted anew by `count_budgets`.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.kubernetes_answers import BUDGETS, BY_KIND, NODES, PODS, Json, Kind
from tests.fakes.kubernetes_objects import PodSpec, owner_json, reference, timestamp
from tests.fakes.kubernetes_selection import matches_selector

Key = tuple[str, str]
_REPLACING = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")
#: How long a booked disruption counts although nothing was evicted.
BURNT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Change:
    """One change, as a watch tells it."""

    version: int
    kind: Kind
    type: str
    obj: Json


@dataclass(slots=True)
class ClusterState:
    """Everything the API server keeps. Take `lock` for several steps that belong together."""

    now: datetime
    version: int = 1000
    settles_at_once: bool = False
    #: Which node a replacement goes to, by the owner's name; None leaves it Pending.
    landing: Callable[[Json], str | None] = lambda pod: str(pod["spec"]["nodeName"])
    objects: dict[Kind, dict[Key, Json]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    #: Watches from before this version are told that it is too old.
    oldest_version: int = 0
    namespaces_ending: set[str] = field(default_factory=set)
    evicted: list[str] = field(default_factory=list)
    waiting_owners: list[Json] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    changed: threading.Condition = field(init=False)
    _made: int = 0

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)
        self.objects = {kind: {} for kind in BY_KIND.values()}
        self.add(BY_KIND["Namespace"], {"metadata": {"name": "default"}})

    # -- objects -----------------------------------------------------------------------------------

    def all(self, kind: Kind) -> list[Json]:
        """Every object of a kind, in the order of lists."""
        with self.lock:
            return [obj for _, obj in sorted(self.objects[kind].items())]

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """One object as it is now."""
        return self.objects[kind].get((namespace, name))

    def add(self, kind: Kind, obj: Json) -> Json:
        """A new object gets a UID, a version and a time."""
        with self.lock:
            obj = copy.deepcopy(obj)
            meta = obj.setdefault("metadata", {})
            namespace = meta.get("namespace", "")
            if namespace and self.get(BY_KIND["Namespace"], namespace) is None:
                self.add(BY_KIND["Namespace"], {"metadata": {"name": namespace}})
            self._made += 1
            meta["uid"] = str(uuid.UUID(int=self._made))
            if kind in (PODS, BUDGETS):
                meta["generation"] = 1
            meta["creationTimestamp"] = timestamp(self.now)
            body = {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
            return self._store(kind, body, "ADDED")

    def change(self, kind: Kind, obj: Json) -> Json:
        """An object in its new form gets a new version."""
        with self.lock:
            return self._store(kind, copy.deepcopy(obj), "MODIFIED")

    def remove(self, kind: Kind, name: str, namespace: str = "") -> None:
        """The object is gone."""
        with self.lock:
            obj = copy.deepcopy(self.objects[kind].pop((namespace, name)))
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
            self._tell(kind, "DELETED", obj)

    def _store(self, kind: Kind, obj: Json, type_: str) -> Json:
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        self.objects[kind][(meta.get("namespace", ""), meta["name"])] = obj
        self._tell(kind, type_, obj)
        return obj

    def _tell(self, kind: Kind, type_: str, obj: Json) -> None:
        self.changes.append(Change(self.version, kind, type_, copy.deepcopy(obj)))
        self.changed.notify_all()

    # -- what tests put in -----------------------------------------------------------------------

    def add_pod(self, spec: PodSpec) -> Json:
        """A pod, with its controller if it names one that is not there yet."""
        with self.lock:
            uid = ""
            if spec.owner is not None:
                uid = self.add_owner(*spec.owner, spec.namespace)["metadata"]["uid"]
            return self.add(PODS, spec.json(owner_uid=uid))

    def add_owner(self, kind: str, name: str, namespace: str) -> Json:
        """A controller; a ReplicaSet named `chat-5d8f7c` belongs to the Deployment `chat`."""
        api = BY_KIND.get(kind)
        if api is None or api is NODES:
            return {"metadata": {"uid": ""}}
        known = self.get(api, name, namespace)
        if known is not None:
            return known
        owner = None
        if kind == "ReplicaSet" and "-" in name:
            parent = self.add_owner("Deployment", name.rpartition("-")[0], namespace)
            owner = reference("Deployment", parent["metadata"]["name"], parent["metadata"]["uid"])
        return self.add(api, owner_json(kind, namespace, name, owner))

    def add_budget(self, budget: Json, *, processed: bool = True) -> Json:
        """A budget; unprocessed ones have no numbers yet."""
        with self.lock:
            made = self.add(BUDGETS, budget)
            if processed:
                self.count_budgets()
            return made

    # -- time and controllers --------------------------------------------------------------------

    def step(self, seconds: float = 0) -> None:
        """Time passes: pods whose grace is over are gone, burnt budgets come back."""
        with self.lock:
            self.now += timedelta(seconds=seconds)
            for pod in self.all(PODS):
                meta = pod["metadata"]
                until = meta.get("deletionTimestamp")
                if until and not meta.get("finalizers") and until <= timestamp(self.now):
                    self.remove(PODS, meta["name"], meta["namespace"])
            self.count_budgets()

    def run_owners(self, *, ready: bool = True) -> list[Json]:
        """Controllers replace what was evicted, and the scheduler places it by `landing`."""
        with self.lock:
            made = []
            for old in list(self.waiting_owners):
                reference_ = old["metadata"]["ownerReferences"][0]
                is_named = reference_["kind"] == "StatefulSet"
                meta = old["metadata"]
                if is_named and self.get(PODS, meta["name"], meta["namespace"]) is not None:
                    continue  # it waits until the old one is gone
                self.waiting_owners.remove(old)
                made.append(self._replacement(old, ready=ready, keeps_name=is_named))
            self.count_budgets()
            return made

    def make_ready(self, namespace: str, name: str) -> Json:
        """A pod starts to serve."""
        with self.lock:
            pod = copy.deepcopy(self.objects[PODS][(namespace, name)])
            pod["status"] = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            changed = self.change(PODS, pod)
            self.count_budgets()
            return changed

    def _replacement(self, old: Json, *, ready: bool, keeps_name: bool) -> Json:
        spec = copy.deepcopy(old["spec"])
        node = self.landing(old)
        spec.pop("nodeName", None)
        if node is not None:
            spec["nodeName"] = node
        owner = old["metadata"]["ownerReferences"][0]
        name = old["metadata"]["name"] if keeps_name else f"{owner['name']}-new{self._made}"
        kept = {k: v for k, v in old["metadata"].items() if k in ("labels", "annotations")}
        template = PodSpec(name, node=node, ready=ready, phase="Running" if ready else "Pending")
        return self.add(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "namespace": old["metadata"]["namespace"],
                    "ownerReferences": [owner],
                    **kept,
                },
                "spec": spec,
                "status": template.json()["status"],
            },
        )

    # -- deletion and budgets ----------------------------------------------------------------------

    def terminate(self, pod: Json, grace_seconds: int | None) -> None:
        """Mark a pod for deletion as the eviction API does; grace 0 removes it at once."""
        with self.lock:
            pod = copy.deepcopy(pod)
            meta = pod["metadata"]
            namespace, name = meta["namespace"], meta["name"]
            if meta.get("deletionTimestamp"):
                return
            self.evicted.append(f"{namespace}/{name}")
            grace = grace_seconds
            if grace is None or grace < 0:
                grace = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
            owners = meta.get("ownerReferences", [])
            if owners and owners[0]["kind"] in _REPLACING:
                self.waiting_owners.append(copy.deepcopy(pod))
            pod["status"].setdefault("conditions", []).append(
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": timestamp(self.now),
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                }
            )
            meta["deletionTimestamp"] = timestamp(self.now + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            self.change(PODS, pod)
            if grace == 0:
                self.remove(PODS, name, namespace)
            self.count_budgets()
            if self.settles_at_once:
                self.step(grace)
                self.run_owners()

    def budgets_of(self, pod: Json) -> list[Json]:
        """The budgets that select a pod."""
        meta = pod["metadata"]
        return [
            budget
            for budget in self.all(BUDGETS)
            if budget["metadata"]["namespace"] == meta["namespace"]
            and matches_selector(budget["spec"].get("selector"), meta.get("labels", {}))
        ]

    def book(self, budget: Json, pod_name: str) -> None:
        """An eviction spends one disruption, whatever becomes of it."""
        with self.lock:
            budget = copy.deepcopy(budget)
            booked = budget["status"].setdefault("disruptedPods", {})
            booked[pod_name] = timestamp(self.now)
            budget["status"]["disruptionsAllowed"] -= 1
            self.change(BUDGETS, budget)
            self.count_budgets()

    def count_budgets(self) -> None:
        """What the disruption controller does: every budget gets the numbers of now."""
        with self.lock:
            for budget in self.all(BUDGETS):
                status = self._numbers(budget)
                if status != budget.get("status"):
                    self.change(BUDGETS, budget | {"status": status})

    def _numbers(self, budget: Json) -> Json:
        selected = list(self._selected(budget))
        names = {pod["metadata"]["name"] for pod in selected if not _is_leaving(pod)}
        limit = timestamp(self.now - timedelta(seconds=BURNT_SECONDS))
        booked = {
            name: at
            for name, at in budget.get("status", {}).get("disruptedPods", {}).items()
            if name in names and at > limit
        }
        healthy = sum(
            is_ready(pod) and not _is_leaving(pod) and pod["metadata"]["name"] not in booked
            for pod in selected
        )
        expected, desired = _demand(budget["spec"], selected)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Json = {"observedGeneration": budget["metadata"]["generation"]}
        if booked:
            status["disruptedPods"] = booked
        return status | {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }

    def _selected(self, budget: Json) -> Iterator[Json]:
        namespace = budget["metadata"]["namespace"]
        for pod in self.all(PODS):
            meta = pod["metadata"]
            if meta["namespace"] == namespace and matches_selector(
                budget["spec"].get("selector"), meta.get("labels", {})
            ):
                yield pod


def _demand(spec: Json, selected: list[Json]) -> tuple[int, int]:
    """How many pods there should be, and how many of them must be healthy."""
    minimum: Any = spec.get("minAvailable")
    if isinstance(minimum, int):
        return len(selected), minimum
    # Shares are of what the controllers want, so pods without a controller count for nothing.
    owned = sum(bool(pod["metadata"].get("ownerReferences")) for pod in selected)
    if minimum is not None:
        return owned, -(-owned * int(str(minimum).rstrip("%")) // 100)
    most: Any = spec.get("maxUnavailable", 0)
    if isinstance(most, str):
        most = -(-owned * int(most.rstrip("%")) // 100)
    return owned, max(0, owned - most)


def is_ready(pod: Json) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])
    )


def _is_leaving(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in (
        "Succeeded",
        "Failed",
    )
