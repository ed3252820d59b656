"""A fake Kubernetes API server with state, served over HTTP.

with FakeKubernetes(now=NOON) as fake:
    fake.state.add_pod(PodSpec("chat-1", labels={"app": "chat"}))
    settings = KubernetesSettings(kubeconfig=fake.kubeconfig(tmp_path))

Its answers are those of a real server of v1.36 (tests/data/kubernetes), held to them by
tests/fakes/test_kubernetes_recordings.py and by the contract suite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote

from gpuctl.sim.world import World
from tests.fakes.http_server import FakeServer, Reply, Request, ServerTls
from tests.fakes.kubernetes_answers import (
    KINDS,
    NODES,
    PODS,
    Json,
    Kind,
    Refused,
    failure,
    forbidden,
    json_reply,
    namespace_terminating,
    not_found,
    unauthorized,
)
from tests.fakes.kubernetes_eviction import evict
from tests.fakes.kubernetes_lists import Lists
from tests.fakes.kubernetes_objects import world_nodes, world_pods
from tests.fakes.kubernetes_state import ClusterState
from tests.fakes.kubernetes_writes import create, delete, patch, replace

TOKEN = "token-of-oncall"
VERSION = "v1.36.2"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Right:
    """An RBAC rule; `namespace` None means everywhere, `*` anything.

    `names` limits it to objects of these names, which the path of a create or list has not.
    """

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    group: str = ""
    namespace: str | None = None
    names: tuple[str, ...] = ()

    def allows(self, verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
        return (
            bool({verb, "*"} & set(self.verbs))
            and bool({resource, "*"} & set(self.resources))
            and self.group in (group, "*")
            and self.namespace in (None, namespace)
            and (not self.names or name in self.names)
        )


ADMIN = (Right(("*",), ("*",), "*"),)


@dataclass(frozen=True, slots=True)
class _Target:
    """What a path names. `sub` is a subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    sub: str = ""


@dataclass(slots=True)
class FakeKubernetes:
    """The server. `state` is the cluster; `tokens` are who may call, `rights` what they may do.

    `intercept` sees each request first: a Reply from it is sent instead of the real answer.
    """

    now: datetime
    tls: ServerTls | None = None
    tokens: dict[str, str] = field(default_factory=lambda: {TOKEN: "oncall"})
    rights: dict[str, tuple[Right, ...]] = field(default_factory=lambda: {"oncall": ADMIN})
    intercept: Callable[[Request], Reply | None] = lambda request: None
    state: ClusterState = field(init=False)
    server: FakeServer = field(init=False)
    lists: Lists = field(init=False)

    def __post_init__(self) -> None:
        self.state = ClusterState(self.now)
        self.lists = Lists(self.state)
        self.server = FakeServer(self._answer, tls=self.tls)

    @classmethod
    def of(cls, world: World) -> FakeKubernetes:
        """The Kubernetes side of a simulated cluster."""
        fake = cls(now=world.epoch)
        for node in world_nodes(world):
            fake.state.add(NODES, node)
        for pod in world_pods(world):
            fake.state.add_pod(pod)
        return fake

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failed: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lists.end_watches(for_good=True)
        self.server.__exit__(kind, failed, trace)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def requests(self) -> list[Request]:
        """What was received."""
        return self.server.requests

    def kubeconfig(
        self, folder: Path, user: Mapping[str, object] | None = None, **cluster: object
    ) -> str:
        """A kubeconfig file with one context, `fake`; by default with the token of `oncall`."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url, **cluster}}],
            "users": [{"name": "oncall", "user": {"token": TOKEN} if user is None else user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "oncall"}}],
        }
        path = folder / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return str(path)

    # -- requests ----------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Reply:
        intercepted = self.intercept(request)
        if intercepted is not None:
            return intercepted
        try:
            return self._handle(request)
        except Refused as refused:
            return refused.reply

    def _handle(self, request: Request) -> Reply:
        user = self._user(request)
        if request.path == "/version":
            return json_reply(200, {"major": "1", "minor": "36", "gitVersion": VERSION})
        target = _target(request.path)
        if target is None:
            raise Refused(failure(404, "404 page not found", "NotFound", {}))
        if target.kind.resource == "selfsubjectaccessreviews":
            return self._review(request, user)
        verb = self._verb(request, target)
        self._authorize(user, verb, target)
        if request.method == "GET":
            return self._read(request, target, verb)
        return self._write(request, target)

    def _user(self, request: Request) -> str:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if not kind:
            return "system:anonymous"
        if kind.lower() != "bearer" or token not in self.tokens:
            raise unauthorized()
        return self.tokens[token]

    def _verb(self, request: Request, target: _Target) -> str:
        if request.method != "GET":
            return _VERBS[request.method]
        if target.name:
            return "get"
        return "watch" if request.param("watch") in ("1", "true") else "list"

    def _may(
        self, user: str, verb: str, kind: Kind, sub: str, namespace: str, name: str = ""
    ) -> bool:
        resource = f"{kind.resource}/{sub}" if sub else kind.resource
        return any(
            right.allows(verb, kind.group, resource, namespace, name)
            for right in self.rights.get(user, ())
        )

    def _authorize(self, user: str, verb: str, target: _Target) -> None:
        if not self._may(user, verb, target.kind, target.sub, target.namespace, target.name):
            raise forbidden(
                target.kind,
                user,
                verb,
                sub=target.sub,
                namespace=target.namespace or None,
                name=target.name,
            )

    def _review(self, request: Request, user: str) -> Reply:
        body = json.loads(request.body)
        asked = body["spec"]["resourceAttributes"]
        kind = KINDS.get((asked.get("group", ""), asked["resource"]))
        allowed = kind is not None and self._may(
            user, asked["verb"], kind, asked.get("subresource", ""), asked.get("namespace", "")
        )
        status: Json = {"allowed": allowed}
        if allowed:
            status["reason"] = 'RBAC: allowed by ClusterRoleBinding "test" of ClusterRole "test"'
        head = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
        }
        return json_reply(201, head | {"spec": body["spec"], "status": status})

    def _read(self, request: Request, target: _Target, verb: str) -> Reply:
        if verb == "watch":
            return self.lists.watch(target.kind, target.namespace, request)
        if verb == "list":
            return self.lists.page(target.kind, target.namespace, request)
        with self.state.lock:
            found = self.state.get(target.kind, target.name, target.namespace)
            if found is None:
                raise not_found(target.kind, target.name)
            return json_reply(200, found)

    def _write(self, request: Request, target: _Target) -> Reply:
        state, kind = self.state, target.kind
        if target.namespace in state.namespaces_ending and request.method == "POST":
            raise namespace_terminating(kind, target.namespace, target.name)
        if kind is PODS and target.sub == "eviction":
            return evict(state, request, target.namespace, target.name)
        with state.lock:
            match request.method:
                case "POST":
                    return create(state, kind, target.namespace, request)
                case "PUT":
                    return replace(state, kind, target.namespace, target.name, request)
                case "PATCH":
                    return patch(state, kind, target.namespace, target.name, request)
                case _:
                    return delete(state, kind, target.namespace, target.name)


def _target(path: str) -> _Target | None:
    """`/apis/GROUP/v1/namespaces/NS/RESOURCE/NAME/SUB`, with the parts that are there."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group = ""
    if parts[:2] == ["api", "v1"]:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = KINDS.get((group, rest[0])) if rest else None
    if kind is None:
        return None
    name, sub = (*rest[1:3], "", "")[:2]
    return _Target(kind, namespace, name, sub)


def times(
    count: int, reply: Reply, when: Callable[[Request], bool]
) -> Callable[[Request], Reply | None]:
    """An `intercept` that answers the first `count` requests of a sort with `reply`."""
    left = [count]

    def intercept(request: Request) -> Reply | None:
        if left[0] > 0 and when(request):
            left[0] -= 1
            return reply
        return None

    return intercept
