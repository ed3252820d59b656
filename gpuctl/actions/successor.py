"""Waits until an evicted pod is gone and its successor serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from gpuctl.actions.interruption import Patience
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.reading import Selection
from gpuctl.clients.kubernetes.wire import Pod
from gpuctl.clock import Clock
from gpuctl.model.durations import format_duration

_POLL_SECONDS = 2.0
#: An owner that has made no new pod by then has been scaled down, or is gone.
APPEARS_WITHIN_SECONDS = 60.0

End = Literal["ready", "none", "late", "interrupted"]


@dataclass(frozen=True, slots=True)
class Succession:
    """How the waiting ended.

    ready: `successor` serves. none: nothing replaces the pod. late: the time was up. interrupted:
    a signal's grace was over. `text` says what was seen last.
    """

    end: End
    text: str
    successor: Pod | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The pod that was evicted. `siblings` are the UIDs of its owner's pods before that."""

    namespace: str
    name: str
    uid: str
    owner: str
    owner_uid: str
    template_hash: str
    siblings: frozenset[str]


@dataclass(frozen=True, slots=True)
class SuccessionWatch:
    """Looks at pods again and again. Raises BackendError when they can't be read."""

    client: KubernetesClient
    clock: Clock
    patience: Patience
    say: Callable[[str], None]
    within: timedelta

    def until_served(self, old: Succeeded) -> Succession:
        """Until the old pod is gone and a new one of its owner is Ready, or `within` is over."""
        began = self.clock.monotonic()
        last = ""
        while True:
            gone = is_gone(self.client, old.namespace, old.name, old.uid)
            successor = self._successor(old) if old.owner_uid else None
            waited = self.clock.monotonic() - began
            end = _end(old, waited, gone=gone, successor=successor)
            text = _seen(old, gone=gone, successor=successor)
            if end is not None:
                return Succession(end, text, successor)
            if text != last:
                self.say(text)
                last = text
            if waited >= self.within.total_seconds():
                limit = format_duration(self.within)
                return Succession("late", f"{text}, {limit} after the eviction", successor)
            if not self.patience.wait_running(_POLL_SECONDS):
                if self.patience.interruption.is_requested:
                    return Succession("interrupted", text, successor)
                return Succession("late", f"{text} when the time was up", successor)

    def _successor(self, old: Succeeded) -> Pod | None:
        """The newest pod of the owner that was not there before; a Ready one counts most."""
        made = [
            pod
            for pod in pods_of_owner(self.client, old.namespace, old.owner_uid, old.template_hash)
            if pod.metadata.uid not in old.siblings and pod.metadata.uid != old.uid
        ]
        made = [pod for pod in made if not pod.is_terminating and not pod.is_finished]
        return max(made, key=lambda pod: (pod.is_ready, bool(pod.spec.node_name)), default=None)


def is_gone(client: KubernetesClient, namespace: str, name: str, uid: str) -> bool:
    """Whether the pod is no more; another one may have its name."""
    pod = client.read_pod(namespace, name)
    return pod is None or pod.metadata.uid != uid


def pods_of_owner(
    client: KubernetesClient, namespace: str, owner_uid: str, template_hash: str
) -> list[Pod]:
    """The pods that a controller keeps; a ReplicaSet's hash makes the list short."""
    labels = f"pod-template-hash={template_hash}" if template_hash else None
    return [
        pod
        for pod in client.pods(Selection(namespace=namespace, labels=labels))
        if (owner := pod.metadata.controller) is not None and owner.uid == owner_uid
    ]


def _end(old: Succeeded, waited: float, *, gone: bool, successor: Pod | None) -> End | None:
    if not gone:
        return None
    if successor is not None:
        return "ready" if successor.is_ready else None
    if not old.owner_uid or waited >= APPEARS_WITHIN_SECONDS:
        return "none"
    return None


def _seen(old: Succeeded, *, gone: bool, successor: Pod | None) -> str:
    """What a look at the pods showed, as a clause."""
    first = "gone" if gone else "terminating"
    if successor is None:
        if not old.owner_uid:
            return f"{first}; nothing starts it again"
        return f"{first}; no successor of {old.owner} yet"
    name = successor.metadata.name
    if successor.is_ready:
        return f"{first}; its successor {name} serves on {successor.spec.node_name}"
    if not successor.spec.node_name:
        why = successor.unscheduled_reason or "not scheduled yet"
        return f"{first}; its successor {name} is Pending: {why}"
    return f"{first}; its successor {name} starts on {successor.spec.node_name}"
