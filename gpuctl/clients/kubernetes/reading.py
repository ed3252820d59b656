"""Lists in pages, and single objects, as the structs that gpuctl reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import msgspec

from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes.meta import ListMeta
from gpuctl.clients.kubernetes.problems import Access, GoneError, NotFoundError, nonsense
from gpuctl.clients.kubernetes.session import ApiSession, Call, path_of
from gpuctl.errors import BackendError

PAGE = 500
# 500 pages of 500 are 250,000 objects; a server that never says "done" is broken.
_MOST_PAGES = 500
_ONLY_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Value = TypeVar("Value")


class _Page(Protocol[Item_co]):
    @property
    def metadata(self) -> ListMeta: ...
    @property
    def items(self) -> Sequence[Item_co] | None: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object and where the API keeps it."""

    resource: str
    group: str = ""
    version: str = "v1"

    def path(self, *parts: str, namespace: str | None = None) -> str:
        """The path of the whole kind, or of one object of it."""
        root = ("apis", self.group, self.version) if self.group else ("api", self.version)
        inside = ("namespaces", namespace) if namespace is not None else ()
        return path_of(*root, *inside, self.resource, *parts)

    def access(self, verb: str, namespace: str | None = None, sub: str = "") -> Access:
        """What RBAC calls it."""
        resource = f"{self.resource}/{sub}" if sub else self.resource
        return Access(verb, resource, self.group, namespace)


PODS = Kind("pods")
NODES = Kind("nodes")
CONFIG_MAPS = Kind("configmaps")
BUDGETS = Kind("poddisruptionbudgets", "policy")
PRIORITY_CLASSES = Kind("priorityclasses", "scheduling.k8s.io")
REPLICA_SETS = Kind("replicasets", "apps")
LEASES = Kind("leases", "coordination.k8s.io")
EVENTS = Kind("events", "events.k8s.io")
ACCESS_REVIEWS = Kind("selfsubjectaccessreviews", "authorization.k8s.io")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects to list. None as namespace: all of them."""

    namespace: str | None = None
    labels: str | None = None
    fields: str | None = None

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """Its part of the query string."""
        pairs = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return tuple((name, value) for name, value in pairs if value)


EVERYTHING = Selection()


def decoded(answer: Answer, type_: type[Value], session: ApiSession, call: Call) -> Value:
    """The body of a success. Raises BackendError when it is not what it should be."""
    try:
        return msgspec.json.decode(answer.body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise nonsense(answer, call.access, session.server, str(exc)) from exc


def list_all(
    session: ApiSession,
    kind: Kind,
    page_type: type[_Page[Item]],
    selection: Selection = EVERYTHING,
    *,
    page_size: int = PAGE,
    only_metadata: bool = False,
) -> tuple[tuple[Item, ...], str]:
    """Every object, and the version of the list; pages of one list show one moment.

    When the server forgets that moment between two pages (410), the list is begun anew, once: to
    go on with the token that it offers would mix two moments. Raises BackendError.
    """
    call = Call(
        "GET",
        kind.path(namespace=selection.namespace),
        kind.access("list", selection.namespace),
        query=(*selection.query, ("limit", str(page_size))),
    )
    if only_metadata:
        call = replace(call, accept=_ONLY_METADATA)
    try:
        return _pages(session, call, page_type)
    except GoneError:
        return _pages(session, call, page_type)


def _pages(
    session: ApiSession, first: Call, page_type: type[_Page[Item]]
) -> tuple[tuple[Item, ...], str]:
    items: list[Item] = []
    seen: set[str] = set()
    call = first
    for _ in range(_MOST_PAGES):
        page = decoded(session.expect(call), page_type, session, call)
        items.extend(page.items or ())
        token = page.metadata.continue_token
        if not token:
            return tuple(items), page.metadata.resource_version
        if token in seen:
            break
        seen.add(token)
        call = replace(first, query=(*first.query, ("continue", token)))
    raise BackendError(
        f"{session.server} never ends the list of {first.access.resource}",
        cause="it hands out the same page again, or more than 250,000 objects",
        hint="a cache or proxy in between is broken",
    )


def read_one(
    session: ApiSession, kind: Kind, type_: type[Value], name: str, namespace: str | None = None
) -> Value | None:
    """One object, None when it (or its namespace) does not exist."""
    call = Call("GET", kind.path(name, namespace=namespace), kind.access("get", namespace))
    try:
        return decoded(session.expect(call), type_, session, call)
    except NotFoundError:
        return None
