"""Writes of single objects with the checks that gpuctl can run into."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes_answers import (
    BUDGETS,
    BY_KIND,
    NODES,
    PODS,
    Json,
    Kind,
    already_exists,
    bad_request,
    invalid,
    json_reply,
    modified,
    not_found,
    success,
)
from tests.fakes.kubernetes_state import ClusterState

_LEASES, _EVENTS = BY_KIND["Lease"], BY_KIND["Event"]
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?(Z|[+-]\d\d:\d\d)")
_CORDON_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_LONGEST_NOTE = 1024


def create(state: ClusterState, kind: Kind, namespace: str, request: Request) -> Reply:
    """POST. Raises Refused."""
    body = json.loads(request.body)
    name = body["metadata"]["name"]
    if namespace:
        body["metadata"].setdefault("namespace", namespace)
        if state.get(BY_KIND["Namespace"], namespace) is None:
            raise not_found(BY_KIND["Namespace"], namespace)
    _check(kind, body, namespace)
    if state.get(kind, name, namespace) is not None:
        raise already_exists(kind, name)
    made = state.add(kind, _with_defaults(kind, body))
    if kind in (BUDGETS, PODS):
        state.count_budgets()
        made = state.get(kind, name, namespace) or made
    return json_reply(201, made)


def replace(state: ClusterState, kind: Kind, namespace: str, name: str, request: Request) -> Reply:
    """PUT: the whole object, made from the version it names. Raises Refused."""
    body = json.loads(request.body)
    old = state.get(kind, name, namespace)
    if old is None:
        raise not_found(kind, name)
    _check(kind, body, namespace)
    version = body["metadata"].get("resourceVersion")
    if version is None and kind is _LEASES:
        raise invalid(
            f'{kind.qualified} "{name}"',
            kind.details(name),
            "metadata.resourceVersion",
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
        )
    if version is not None and version != old["metadata"]["resourceVersion"]:
        raise modified(kind, name)
    kept = {k: old["metadata"][k] for k in ("uid", "creationTimestamp")}
    meta = {"name": name, **body["metadata"], **kept}
    if namespace:
        meta["namespace"] = namespace
    head = {"kind": kind.kind, "apiVersion": kind.api_version}
    return json_reply(200, state.change(kind, {**head, **body, "metadata": meta}))


def patch(state: ClusterState, kind: Kind, namespace: str, name: str, request: Request) -> Reply:
    """PATCH, as a merge of JSON. Raises Refused."""
    if request.headers.get("content-type") != "application/merge-patch+json":
        raise bad_request("the fake knows merge patches only")
    wanted = json.loads(request.body)
    old = state.get(kind, name, namespace)
    if old is None:
        raise not_found(kind, name)
    version = wanted.get("metadata", {}).pop("resourceVersion", None)
    if version is not None and version != old["metadata"]["resourceVersion"]:
        raise modified(kind, name)
    new = _merged(copy.deepcopy(old), wanted)
    if kind is NODES:
        _mirror_cordon(new)
    return json_reply(200, old if new == old else state.change(kind, new))


def delete(state: ClusterState, kind: Kind, namespace: str, name: str) -> Reply:
    """DELETE, which gpuctl itself never sends to pods. Raises Refused."""
    if state.get(kind, name, namespace) is None:
        raise not_found(kind, name)
    state.remove(kind, name, namespace)
    return success(200)


def _with_defaults(kind: Kind, body: Json) -> Json:
    if kind is PODS:
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        body["spec"].setdefault("terminationGracePeriodSeconds", 30)
        body["spec"].setdefault("nodeName", "gpu-a")
        return body | {"status": ready}
    return body


def _mirror_cordon(node: Json) -> None:
    """The controller's taint that goes with a cordon."""
    spec = node["spec"]
    taints = [t for t in spec.get("taints") or [] if t["key"] != _CORDON_TAINT["key"]]
    if spec.get("unschedulable"):
        taints.append(_CORDON_TAINT)
    if taints:
        spec["taints"] = taints
    else:
        spec.pop("taints", None)


def _merged(into: Json, wanted: Json) -> Json:
    for key, value in wanted.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            into[key] = _merged(dict(into.get(key) or {}), value)
        else:
            into[key] = value
    return into


def _check(kind: Kind, body: Json, namespace: str) -> None:
    if kind is _LEASES:
        _check_lease(body)
    if kind is _EVENTS:
        _check_event(body, namespace)


def _check_lease(body: Json) -> None:
    spec = body.get("spec", {})
    for name in ("acquireTime", "renewTime"):
        text = spec.get(name)
        if text is not None:
            _check_micro_time(text, "Lease")
    if spec.get("leaseDurationSeconds", 1) <= 0:
        raise invalid(
            f'Lease.coordination.k8s.io "{body["metadata"]["name"]}"',
            {
                "name": body["metadata"]["name"],
                "group": "coordination.k8s.io",
                "kind": "Lease",
            },
            "spec.leaseDurationSeconds",
            "FieldValueInvalid",
            f"Invalid value: {spec['leaseDurationSeconds']}: must be greater than 0",
        )


def _check_micro_time(text: str, kind: str) -> None:
    found = _MICRO_TIME.fullmatch(text)
    if found and found[1]:
        return
    rest = text[19:]
    raise bad_request(
        f'{kind} in version "v1" cannot be handled as a {kind}: parsing time "{text}" as '
        f'"2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as ".000000"'
    )


def _check_event(body: Json, namespace: str) -> None:
    name = body["metadata"]["name"]
    subject, details = f'Event "{name}"', {"name": name, "kind": "Event"}

    def refuse(field: str, message: str, reason: str) -> None:
        raise invalid(subject, details, field, reason, message)

    if "eventTime" in body:
        _check_micro_time(body["eventTime"], "Event")
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        if not body.get(field):
            refuse(field, "Required value", "FieldValueRequired")
    regarding: Any = body.get("regarding", {})
    inside = regarding.get("namespace", "")
    if inside != namespace and not (inside == "" and namespace == "default"):
        refuse(
            "involvedObject.namespace",
            f'Invalid value: "{inside}": does not match event.namespace',
            "FieldValueInvalid",
        )
    if len(body.get("note", "")) > _LONGEST_NOTE:
        refuse(
            "message",
            'Invalid value: "": can have at most 1024 characters',
            "FieldValueInvalid",
        )
