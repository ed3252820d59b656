"""Label and field selectors, pages and their tokens, as the API server understands them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.kubernetes_answers import Json, bad_request

_POD_FIELDS = {
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.schedulerName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
}
_OTHER_FIELDS = {"metadata.name", "metadata.namespace"}
_SET = re.compile(r"\s*([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"\s*([\w./-]+)\s*(==|!=|=)\s*([\w./-]*)\s*$")
_EXISTS = re.compile(r"\s*(!?)\s*([\w./-]+)\s*$")


def matches_selector(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """A selector object; None selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(k) != v for k, v in selector.get("matchLabels", {}).items()):
        return False
    for one in selector.get("matchExpressions", []):
        value, values = labels.get(one["key"]), one.get("values", [])
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[one["operator"]]
        if not holds:
            return False
    return True


def matches_labels(text: str, labels: Mapping[str, str]) -> bool:
    """A label selector of a query string."""
    return all(_holds(part, labels) for part in re.split(r",(?![^(]*\))", text))


def _holds(part: str, labels: Mapping[str, str]) -> bool:
    if found := _SET.match(part):
        values = {value.strip() for value in found[3].split(",")}
        return (labels.get(found[1]) in values) == (found[2] == "in")
    if found := _EQUAL.match(part):
        return (labels.get(found[1]) == found[3]) == (found[2] != "!=")
    if found := _EXISTS.match(part):
        return (found[2] in labels) != bool(found[1])
    raise bad_request(f"unable to parse requirement: {part}")


def field_conditions(text: str, resource: str) -> list[re.Match[str]]:
    """The parts of a field selector. Raises Refused for a field that is not indexed."""
    known = _POD_FIELDS if resource == "pods" else _OTHER_FIELDS
    found = []
    for part in text.split(","):
        match = _EQUAL.match(part)
        if match is None or match[1] not in known:
            raise bad_request(f"field label not supported: {match[1] if match else part}")
        found.append(match)
    return found


def matches_fields(text: str, obj: Json, resource: str) -> bool:
    """A field selector of a query string; unknown fields are refused."""
    for found in field_conditions(text, resource):
        value: Any = obj
        for key in found[1].split("."):
            value = value.get(key, "") if isinstance(value, dict) else ""
        if (str(value) == found[3]) != (found[2] != "!="):
            return False
    return True


def page_token(version: int, last: str) -> str:
    """Where the next page begins."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": f"{last}\0"})
    return (
        base64.urlsafe_b64encode(text.replace(": ", ":").replace(", ", ",").encode())
        .decode()
        .rstrip("=")
    )


def read_token(token: str) -> tuple[int, str]:
    """(version, last name) of a page's token."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found = json.loads(raw)
        return int(found["rv"]), str(found["start"]).rstrip("\0")
    except (ValueError, KeyError, TypeError):
        raise bad_request(
            "invalid continue token: continue key is not valid: invalid character '\\x00' "
            "looking for beginning of value"
        ) from None
