"""What a workload is (training or inference), and whether it may be moved at all.

Protection is judged by named rules in a fixed order. A rule that needs a fact which no inventory
has told answers "unknown", never "allowed".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from gpuctl.errors import ConfigError
from gpuctl.model.policy import ClassSelector, Policy
from gpuctl.model.workload import Workload, WorkloadClass
from gpuctl.policy.selectors import Selector, parse_selector
from gpuctl.policy.verdict import Verdict, decisive

PINNED_TAG = "gpuctl-pinned"
# What the Proxmox inventory calls the Kubernetes node that a VM is.
NODE_LABEL = "gpuctl.io/kubernetes-node"
EVICTABLE_ANNOTATION = "gpuctl.io/evictable"

# Pods of these belong to one node: evicted, they come back to the very same one.
_NODE_BOUND = frozenset({"DaemonSet", "Node"})
# Every kind that ends in Job (Job, PyTorchJob, RayJob ...) loses work when a pod of it goes; a
# StatefulSet's replica has an identity and, as a rule, a volume.
_STAYS = "StatefulSet"
_JOB = "Job"


def workload_class(workload: Workload, policy: Policy) -> WorkloadClass:
    """The class the inventory gave, else by the policy's selectors; training when both match.

    A pod whose labels nobody has read is `unknown`: `!key` must not match for lack of data.
    Raises ConfigError for a selector that can't be understood.
    """
    if workload.workload_class != "unknown":
        return workload.workload_class
    # Training first: it is what a wrong move costs most.
    if _selects(policy.classes.training, workload, "training"):
        return "training"
    if _selects(policy.classes.inference, workload, "inference"):
        return "inference"
    return "unknown"


def class_of_labels(
    labels: Mapping[str, str], policy: Policy
) -> Literal["training", "inference"] | None:
    """The class of a pod that is still to be made, by its labels; None when neither fits."""
    pod = Workload(id="new/pod", kind="pod", owner="", labels=dict(labels))
    found = workload_class(pod, policy)
    return None if found == "unknown" else found


def _selects(selector: ClassSelector, workload: Workload, name: str) -> bool:
    if workload.kind == "vm":
        return not set(selector.vm_tags).isdisjoint(workload.tags)
    if selector.pods is None or _is_uninventoried(workload):
        return False
    return _parsed(selector.pods, name).matches(workload.labels)


def _parsed(text: str, name: str) -> Selector:
    try:
        return parse_selector(text)
    except ValueError as exc:
        raise ConfigError(
            f"policy.classes.{name}.pods is not a label selector",
            cause=str(exc),
            hint="for example: app in (train), tier!=web",
        ) from exc


def _is_uninventoried(workload: Workload) -> bool:
    """Whether a pod is known from the metrics' labels alone."""
    return workload.owner is None and not workload.labels


def owner_kind(workload: Workload) -> str:
    """`Deployment` of `Deployment/chat`; "" where there is no owner or none is known."""
    return (workload.owner or "").partition("/")[0]


def protection(workload: Workload, policy: Policy) -> Verdict:
    """Whether the policy lets a workload be moved: the decisive rule of PROTECTION_RULES.

    allowed True: no rule objects. False: the first rule that does. None: no rule objects, and at
    least one lacks a fact; the reason says which.
    """
    decided = decisive(rule(workload, policy) for rule in PROTECTION_RULES)
    return decided or Verdict(True, "movable", "no rule protects it")


def _namespace(workload: Workload, policy: Policy) -> Verdict:
    return _unless(
        workload.kind == "pod" and workload.namespace in policy.protected_namespaces,
        "protected-namespace",
        f"namespace {workload.namespace} is protected",
    )


def _priority(workload: Workload, policy: Policy) -> Verdict:
    rule, critical = "critical-priority", policy.critical_priority
    if workload.kind != "pod":
        return _unless(False, rule, "")
    if workload.priority is None:
        return Verdict(None, rule, "priority unknown: no Kubernetes inventory")
    return _unless(
        workload.priority >= critical,
        rule,
        f"priority {workload.priority} is critical, which starts at {critical}",
    )


def _annotation(workload: Workload, policy: Policy) -> Verdict:
    return _unless(
        workload.evictable is False,
        "not-evictable",
        f'its annotation {EVICTABLE_ANNOTATION} is "false"',
    )


def _owner_known(workload: Workload, policy: Policy) -> Verdict:
    rule = "owner-unknown"
    if workload.kind == "pod" and workload.owner is None:
        return Verdict(None, rule, "owner unknown: no Kubernetes inventory")
    return _unless(False, rule, "")


def _node_bound(workload: Workload, policy: Policy) -> Verdict:
    kind = owner_kind(workload)
    what = "a mirror pod of its node" if kind == "Node" else f"a pod of a {kind}"
    return _unless(kind in _NODE_BOUND, "node-bound", f"{what}: it would come back to this node")


def _bare(workload: Workload, policy: Policy) -> Verdict:
    return _unless(
        workload.kind == "pod" and workload.owner == "",
        "bare-pod",
        "it has no owner: nothing would start it again",
    )


def _stays(workload: Workload, policy: Policy) -> Verdict:
    """Training pods and pods of a Job or StatefulSet stay, unless the annotation says otherwise."""
    kind = owner_kind(workload)
    keeps_state = kind == _STAYS or kind.endswith(_JOB)
    trains = workload_class(workload, policy) == "training"
    what = f"it belongs to a {kind}" if keeps_state else "it is a training pod"
    return _unless(
        workload.kind == "pod" and not workload.evictable and (keeps_state or trains),
        "stays-by-default",
        f'{what}; the annotation {EVICTABLE_ANNOTATION}: "true" allows a move',
    )


def _job(workload: Workload, policy: Policy) -> Verdict:
    return _unless(workload.kind == "job", "batch-job", "gpuctl can't move a batch job")


def _pinned(workload: Workload, policy: Policy) -> Verdict:
    return _unless(PINNED_TAG in workload.tags, "pinned", f"it has the tag {PINNED_TAG}")


def _is_node(workload: Workload, policy: Policy) -> Verdict:
    node = workload.labels.get(NODE_LABEL)
    return _unless(
        workload.kind == "vm" and node is not None,
        "kubernetes-node",
        f"it is the Kubernetes node {node}: drain that instead",
    )


def _live_migratable(workload: Workload, policy: Policy) -> Verdict:
    rule = "not-live-migratable"
    if workload.kind == "vm" and workload.live_migratable is None:
        return Verdict(None, rule, "GPU mapping unknown: no Proxmox inventory")
    return _unless(
        workload.kind == "vm" and not workload.live_migratable,
        rule,
        "its GPU can't be migrated live",
    )


def _unless(objects: bool, rule: str, reason: str) -> Verdict:
    """A refusal with its reason when the rule objects, else a yes that needs none."""
    return Verdict(not objects, rule, reason if objects else "")


#: The firmest reason first. Of unknowns the missing owner is named first: with an owner comes the
#: rest of what Kubernetes knows.
PROTECTION_RULES: tuple[Callable[[Workload, Policy], Verdict], ...] = (
    _owner_known,
    _namespace,
    _priority,
    _annotation,
    _node_bound,
    _bare,
    _stays,
    _job,
    _pinned,
    _is_node,
    _live_migratable,
)
