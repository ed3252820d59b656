"""The texts of a Kubernetes API server, word for word as recorded (tests/data/kubernetes)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.http_server import Reply

Json = dict[str, Any]

OVERLOAD = Reply(
    429,
    b"Too many requests, please try again later.\n",
    headers={"Retry-After": "1"},
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object as the API spells it."""

    resource: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`leases.coordination.k8s.io`, as messages name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self, name: str = "") -> Json:
        parts = {"name": name, "group": self.group, "kind": self.resource}
        return {key: value for key, value in parts.items() if value}


KINDS = {
    (kind.group, kind.resource): kind
    for kind in (
        Kind("namespaces", "Namespace", namespaced=False),
        Kind("nodes", "Node", namespaced=False),
        Kind("pods", "Pod"),
        Kind("configmaps", "ConfigMap"),
        Kind("deployments", "Deployment", "apps"),
        Kind("replicasets", "ReplicaSet", "apps"),
        Kind("statefulsets", "StatefulSet", "apps"),
        Kind("daemonsets", "DaemonSet", "apps"),
        Kind("jobs", "Job", "batch"),
        Kind("poddisruptionbudgets", "PodDisruptionBudget", "policy"),
        Kind("priorityclasses", "PriorityClass", "scheduling.k8s.io", namespaced=False),
        Kind("leases", "Lease", "coordination.k8s.io"),
        Kind("events", "Event", "events.k8s.io"),
        Kind(
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            "authorization.k8s.io",
            namespaced=False,
        ),
    )
}
BY_KIND = {kind.kind: kind for kind in KINDS.values()}
PODS = BY_KIND["Pod"]
NODES = BY_KIND["Node"]
BUDGETS = BY_KIND["PodDisruptionBudget"]


class Refused(Exception):  # noqa: N818 - it is an answer, not a bug
    """An answer that ends the handling of a request."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body)
        self.reply = reply


def json_reply(status: int, body: Json, headers: Mapping[str, str] | None = None) -> Reply:
    """An object as an answer."""
    return Reply(
        status,
        json.dumps(body, separators=(",", ":")).encode() + b"\n",
        headers=headers or {},
        content_type="application/json",
        compress=True,
    )


def failure(
    code: int,
    message: str,
    reason: str | None = None,
    details: Json | None = None,
    *,
    metadata: Json | None = None,
    retry_after: int | None = None,
) -> Reply:
    """A Status that says no."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata or {},
        "status": "Failure",
        "message": message,
    }
    if reason is not None:
        body["reason"] = reason
    if details is not None or retry_after is not None:
        body["details"] = dict(details or {})
    if retry_after is not None:
        body["details"]["retryAfterSeconds"] = retry_after
    body["code"] = code
    return json_reply(code, body, {"Retry-After": str(retry_after)} if retry_after else None)


def success(code: int) -> Reply:
    """A Status that says yes."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    return json_reply(code, body)


def bad_request(message: str) -> Refused:
    return Refused(failure(400, message, "BadRequest"))


def unauthorized() -> Refused:
    return Refused(failure(401, "Unauthorized", "Unauthorized"))


def forbidden(
    kind: Kind, user: str, verb: str, *, sub: str = "", namespace: str | None, name: str = ""
) -> Refused:
    what = f'{kind.qualified} "{name}"' if name else kind.qualified
    resource = f"{kind.resource}/{sub}" if sub else kind.resource
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return Refused(
        failure(
            403,
            f'{what} is forbidden: User "{user}" cannot {verb} resource "{resource}" '
            f'in API group "{kind.group}" {scope}',
            "Forbidden",
            kind.details(name),
        )
    )


def namespace_terminating(kind: Kind, namespace: str, name: str) -> Refused:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return Refused(
        failure(
            403,
            f'{kind.qualified} "{name}" is forbidden: unable to create new content in namespace '
            f"{namespace} because it is being terminated",
            "Forbidden",
            kind.details(name) | {"causes": [cause]},
        )
    )


def not_found(kind: Kind, name: str) -> Refused:
    return Refused(
        failure(404, f'{kind.qualified} "{name}" not found', "NotFound", kind.details(name))
    )


def already_exists(kind: Kind, name: str) -> Refused:
    return Refused(
        failure(
            409, f'{kind.qualified} "{name}" already exists', "AlreadyExists", kind.details(name)
        )
    )


def modified(kind: Kind, name: str) -> Refused:
    return Refused(
        failure(
            409,
            f'Operation cannot be fulfilled on {kind.qualified} "{name}": the object has been '
            "modified; please apply your changes to the latest version and try again",
            "Conflict",
            kind.details(name),
        )
    )


def invalid(subject: str, details: Json, field: str, reason: str, message: str) -> Refused:
    cause = {"reason": reason, "message": message, "field": field}
    return Refused(
        failure(
            422,
            f"{subject} is invalid: {field}: {message}",
            "Invalid",
            details | {"causes": [cause]},
        )
    )


def budget_refusal(message: str, *, retry_after: int | None = None) -> Refused:
    return Refused(
        failure(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            "TooManyRequests",
            {"causes": [{"reason": "DisruptionBudget", "message": message}]},
            retry_after=retry_after,
        )
    )
