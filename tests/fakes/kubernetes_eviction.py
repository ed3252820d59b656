"""The Eviction subresource: its checks in the server's order, dry runs, and the spent budget."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes_answers import (
    BY_KIND,
    PODS,
    Json,
    Refused,
    bad_request,
    budget_refusal,
    failure,
    invalid,
    not_found,
    success,
)
from tests.fakes.kubernetes_state import ClusterState, is_ready

_FIELDS: dict[str, Any] = {
    "apiVersion": None,
    "kind": None,
    "metadata": None,
    "deleteOptions": {
        "apiVersion": None,
        "kind": None,
        "dryRun": None,
        "gracePeriodSeconds": None,
        "ignoreStoreReadErrorWithClusterBreakingPotential": None,
        "orphanDependents": None,
        "preconditions": {"uid": None, "resourceVersion": None},
        "propagationPolicy": None,
    },
}
_FINISHED = ("Pending", "Succeeded", "Failed")


def evict(state: ClusterState, request: Request, namespace: str, name: str) -> Reply:
    """What `POST .../pods/{name}/eviction` does. Raises Refused."""
    body = _body(request, namespace, name)
    unknown = list(_unknown(body, _FIELDS))
    if unknown and request.param("fieldValidation") == "Strict":
        listed = ", ".join(f'unknown field "{field}"' for field in unknown)
        raise bad_request(
            f'Eviction in version "v1" cannot be handled as a Eviction: strict decoding error: '
            f"{listed}"
        )
    # Fields that nobody knows are dropped: a misspelt dry run is a real eviction.
    options = body.get("deleteOptions", {})
    dry_run = _dry_run(request, options)
    with state.lock:
        pod = _pod(state, namespace, name)
        _check_budget(state, pod, dry_run=dry_run)
        _check_preconditions(pod, options.get("preconditions", {}))
        if not dry_run:
            state.terminate(pod, options.get("gracePeriodSeconds"))
    reply = success(201)
    if not unknown:
        return reply
    escaped = unknown[0]
    warning = f'299 - "unknown field \\"{escaped}\\""'
    return Reply(
        201,
        reply.body,
        headers={"Warning": warning},
        content_type=reply.content_type,
    )


def _body(request: Request, namespace: str, name: str) -> Json:
    if "json" not in request.headers.get("content-type", ""):
        raise Refused(
            failure(
                415,
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
                "UnsupportedMediaType",
            )
        )
    text = request.body.decode(errors="replace")
    try:
        body = json.loads(text)
    except ValueError:
        raise bad_request(
            "the object provided is unrecognized (must be of type Eviction): couldn't get "
            "version/kind; json parse error: " + _go_complaint(text)
        ) from None
    kind = body.get("kind", "Eviction")
    if kind != "Eviction":
        version = body.get("apiVersion", "v1")
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a Eviction: converting '
            f"({version}.{kind}) to (policy.Eviction): unknown conversion"
        )
    meta = body.get("metadata", {})
    if meta.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    return dict(body)


def _go_complaint(text: str) -> str:
    if not text:
        return "unexpected end of JSON input (<empty>)"
    return (
        f"invalid character '{text.lstrip('{')[:1]}' looking for beginning of object key string "
        f"({text})"
    )


def _unknown(value: Json, fields: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, inner in value.items():
        if key not in fields:
            yield path + key
        elif isinstance(inner, dict) and fields[key] is not None:
            yield from _unknown(inner, fields[key], f"{path}{key}.")


def _dry_run(request: Request, options: Json) -> bool:
    asked = [value for key, value in request.params if key == "dryRun"]
    asked += list(options.get("dryRun", []))
    for value in asked:
        if value != "All":
            message = f'Unsupported value: ["{value}"]: supported values: "All"'
            details = {"group": "meta.k8s.io", "kind": "CreateOptions"}
            subject = 'CreateOptions.meta.k8s.io ""'
            if value in options.get("dryRun", []):
                details["kind"] = "DeleteOptions"
                subject = 'DeleteOptions.meta.k8s.io ""'
            raise invalid(subject, details, "dryRun", "FieldValueNotSupported", message)
    policy = options.get("propagationPolicy")
    if policy not in (None, "Foreground", "Background", "Orphan"):
        message = (
            f'Unsupported value: "{policy}": supported values: "Foreground", "Background", '
            '"Orphan", "nil"'
        )
        details = {"group": "meta.k8s.io", "kind": "DeleteOptions"}
        subject = 'DeleteOptions.meta.k8s.io ""'
        raise invalid(subject, details, "propagationPolicy", "FieldValueNotSupported", message)
    return bool(asked)


def _pod(state: ClusterState, namespace: str, name: str) -> Json:
    if state.get(BY_KIND["Namespace"], namespace) is None:
        raise not_found(BY_KIND["Namespace"], namespace)
    pod = state.get(PODS, name, namespace)
    if pod is None:
        raise not_found(PODS, name)
    return pod


def _check_budget(state: ClusterState, pod: Json, *, dry_run: bool) -> None:
    if pod["status"].get("phase") in _FINISHED or "deletionTimestamp" in pod["metadata"]:
        return
    budgets = state.budgets_of(pod)
    if len(budgets) > 1:
        raise Refused(
            failure(
                500,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
            )
        )
    if not budgets or (not is_ready(pod) and _lets_unhealthy_go(budgets[0])):
        return
    budget = budgets[0]
    name, status = budget["metadata"]["name"], budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise budget_refusal(
            f"The disruption budget {name} is still being processed by the server.", retry_after=10
        )
    if status["disruptionsAllowed"] <= 0:
        needs, has = status["desiredHealthy"], status["currentHealthy"]
        if has <= needs:
            raise budget_refusal(
                f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
            )
        raise budget_refusal(f"The disruption budget {name} does not allow evicting pods currently")
    if not dry_run:
        state.book(budget, pod["metadata"]["name"])


def _lets_unhealthy_go(budget: Json) -> bool:
    policy = budget["spec"].get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
    status = budget.get("status", {})
    needs = status.get("desiredHealthy", 0)
    return policy == "AlwaysAllow" or (0 < needs <= status.get("currentHealthy", 0))


def _check_preconditions(pod: Json, preconditions: Json) -> None:
    meta = pod["metadata"]
    checks = (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    )
    for key, word, what in checks:
        wanted = preconditions.get(key)
        if wanted is not None and wanted != meta[key]:
            raise Refused(
                failure(
                    409,
                    f'Operation cannot be fulfilled on Pod "{meta["name"]}": the {word} in the '
                    f"precondition ({wanted}) does not match the {word} in record ({meta[key]}). "
                    f"The object might have been {what}",
                    "Conflict",
                    {"name": meta["name"], "kind": "Pod"},
                )
            )
