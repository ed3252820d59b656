"""Lists in pages that show one moment, and watches that go on from it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes_answers import Json, Kind, Refused, bad_request, failure, json_reply
from tests.fakes.kubernetes_selection import (
    field_conditions,
    matches_fields,
    matches_labels,
    page_token,
    read_token,
)
from tests.fakes.kubernetes_state import Change, ClusterState

_METADATA_ONLY = "as=PartialObjectMetadataList"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(slots=True)
class Lists:
    """`most_per_page` lowers every page's limit, so that small worlds have pages, too."""

    state: ClusterState
    most_per_page: int | None = None
    #: Whether a watch waits for more; else it ends after what there is, as if its time was over.
    holds_watches: bool = True
    moments: dict[int, list[Json]] = field(default_factory=dict)
    _generation: int = 0
    _is_closed: bool = False

    def forget_moments(self) -> None:
        """Every token handed out so far has expired."""
        self.moments.clear()

    def end_watches(self, *, for_good: bool = False) -> None:
        """Every open watch ends as if its time was over."""
        with self.state.changed:
            self._generation += 1
            self._is_closed = self._is_closed or for_good
            self.state.changed.notify_all()

    # -- lists -------------------------------------------------------------------------------------

    def page(self, kind: Kind, namespace: str, request: Request) -> Reply:
        """One page. Raises Refused."""
        with self.state.lock:
            limit = self._limit(request)
            field_conditions(request.param("fieldSelector") or "metadata.name!=", kind.resource)
            token = request.param("continue")
            self._check_version(request, token)
            if token:
                version, last, items = self._resumed(token, kind, namespace, request)
            else:
                version, last = self.state.version, ""
                items = self._selected(kind, namespace, request)
                self.moments[version] = items
        rest = [obj for obj in items if _key(obj, namespace) > last] if last else items
        shown = rest[:limit] if limit else rest
        meta: Json = {"resourceVersion": str(version)}
        if len(shown) < len(rest):
            meta["continue"] = page_token(version, _key(shown[-1], namespace))
            if not (request.param("labelSelector") or request.param("fieldSelector")):
                meta["remainingItemCount"] = len(rest) - len(shown)
        if _METADATA_ONLY in request.headers.get("accept", ""):
            return json_reply(200, _metadata_list(meta, shown))
        return json_reply(
            200,
            {
                "kind": f"{kind.kind}List",
                "apiVersion": kind.api_version,
                "metadata": meta,
                "items": [_item(obj) for obj in shown],
            },
        )

    def _limit(self, request: Request) -> int:
        limit = int(request.param("limit") or 0)
        if request.param("resourceVersion") == "0":
            return 0  # answered from the cache, which knows no pages
        most = self.most_per_page
        return limit if most is None else min(limit or most, most)

    def _check_version(self, request: Request, token: str | None) -> None:
        version = request.param("resourceVersion")
        if version is None or version == "0":
            return
        if token:
            raise bad_request("specifying resource version is not allowed when using continue")
        current = self.state.version
        if request.param("resourceVersionMatch") == "Exact" and int(version) != current:
            message = "The resourceVersion for the provided list is too old."
            raise Refused(failure(410, message, "Expired"))
        if int(version) > current:
            cause = {
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }
            raise Refused(
                failure(
                    504,
                    f"Timeout: Too large resource version: {version}, current: {current}",
                    "Timeout",
                    {"causes": [cause]},
                    retry_after=1,
                )
            )

    def _resumed(
        self, token: str, kind: Kind, namespace: str, request: Request
    ) -> tuple[int, str, list[Json]]:
        version, last = read_token(token)
        if version == -1:  # what a 410 offered: go on in another moment
            return self.state.version, last, self._selected(kind, namespace, request)
        if version not in self.moments:
            onwards = {"continue": page_token(-1, last)}
            raise Refused(failure(410, _TOO_OLD, "Expired", metadata=onwards))
        return version, last, self.moments[version]

    def _selected(self, kind: Kind, namespace: str, request: Request) -> list[Json]:
        return [
            copy.deepcopy(obj)
            for obj in self.state.all(kind)
            if _is_selected(obj, kind, namespace, request)
        ]

    # -- watches -----------------------------------------------------------------------------------

    def watch(self, kind: Kind, namespace: str, request: Request) -> Reply:
        """A stream of what happens after a version; HTTP says 200 even when that is too old."""
        version = int(request.param("resourceVersion") or self.state.version)
        lines = (
            json.dumps(line).encode() + b"\n"
            for line in self._lines(kind, namespace, request, version)
        )
        return Reply(stream=lines, content_type="application/json")

    def _lines(self, kind: Kind, namespace: str, request: Request, version: int) -> Iterator[Json]:
        state = self.state
        if version < state.oldest_version:
            message = f"too old resource version: {version} ({state.oldest_version})"
            yield {"type": "ERROR", "object": json.loads(failure(410, message, "Expired").body)}
            return
        generation, at = self._generation, 0
        while True:
            with state.changed:
                while at == len(state.changes):
                    ends = not self.holds_watches or generation != self._generation
                    if ends or self._is_closed:
                        yield _bookmark(kind, state.version)
                        return
                    state.changed.wait()
                news, at = state.changes[at:], len(state.changes)
            for change in news:
                if change.version > version and _is_told(change, kind, namespace, request):
                    yield {"type": change.type, "object": change.obj}


def _is_told(change: Change, kind: Kind, namespace: str, request: Request) -> bool:
    return change.kind is kind and _is_selected(change.obj, kind, namespace, request)


def _is_selected(obj: Json, kind: Kind, namespace: str, request: Request) -> bool:
    meta = obj["metadata"]
    labels, fields = request.param("labelSelector"), request.param("fieldSelector")
    return (
        (not namespace or meta.get("namespace") == namespace)
        and (not labels or matches_labels(labels, meta.get("labels", {})))
        and (not fields or matches_fields(fields, obj, kind.resource))
    )


def _key(obj: Json, namespace: str) -> str:
    meta = obj["metadata"]
    inside = meta.get("namespace", "")
    return str(meta["name"]) if namespace or not inside else f"{inside}/{meta['name']}"


def _item(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def _metadata_list(meta: Json, objs: list[Json]) -> Json:
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "items": [head | {"metadata": obj["metadata"]} for obj in objs],
    }


def _bookmark(kind: Kind, version: int) -> Json:
    return {
        "type": "BOOKMARK",
        "object": {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(version)},
            "spec": {"containers": None},
        },
    }
