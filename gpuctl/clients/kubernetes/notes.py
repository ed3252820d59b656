"""Events (events.k8s.io/v1): what `kubectl describe` shows beside an object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from gpuctl.clients.kubernetes.wire import as_micro_time

_CONTROLLER = "gpuctl.io/gpuctl"
_LONGEST_NOTE = 1024
_NODE_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about; `namespace` "" for a node."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    def reference(self) -> dict[str, str]:
        """As the API wants it."""
        parts = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True)
class EventNote:
    """One event. `action` and `reason` are single words such as Evict and GPUOverloaded."""

    regarding: Regarding
    action: str
    reason: str
    text: str
    type: Literal["Normal", "Warning"] = "Normal"
    related: Regarding | None = None

    @property
    def namespace(self) -> str:
        """Where the event lives: beside its object, for a node in `default`."""
        return self.regarding.namespace or _NODE_NAMESPACE


def event_body(note: EventNote, *, instance: str, now: datetime) -> dict[str, Any]:
    """The Event; a note that is too long for the API is cut."""
    text = note.text if len(note.text) <= _LONGEST_NOTE else note.text[: _LONGEST_NOTE - 3] + "..."
    nanoseconds = int(now.timestamp()) * 10**9 + now.microsecond * 1000
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{note.regarding.name[:200]}.{nanoseconds:x}",
            "namespace": note.namespace,
        },
        "eventTime": as_micro_time(now),
        "reportingController": _CONTROLLER,
        "reportingInstance": instance[:128],
        "action": note.action,
        "reason": note.reason,
        "type": note.type,
        "regarding": note.regarding.reference(),
        "note": text,
    }
    if note.related is not None:
        body["related"] = note.related.reference()
    return body
