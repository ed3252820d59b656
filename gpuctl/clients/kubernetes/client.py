"""One Kubernetes cluster: what gpuctl reads of it, and the few things it may change there."""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from gpuctl.clients.http import Limits, Retry
from gpuctl.clients.kubernetes import meta, wire
from gpuctl.clients.kubernetes import reading as r
from gpuctl.clients.kubernetes.eviction import (
    EvictionAnswer,
    eviction_answer,
    eviction_body,
    eviction_query,
)
from gpuctl.clients.kubernetes.leases import ConfigMaps, Leases
from gpuctl.clients.kubernetes.login import LoginOptions, log_in
from gpuctl.clients.kubernetes.nodes import NodeMarks
from gpuctl.clients.kubernetes.notes import EventNote, event_body
from gpuctl.clients.kubernetes.problems import Access, AnswerLostError
from gpuctl.clients.kubernetes.reading import EVERYTHING, Selection
from gpuctl.clients.kubernetes.session import ApiSession, Call, path_of
from gpuctl.clients.kubernetes.watching import PodEvent, PodWatch
from gpuctl.clock import Clock, Deadline, SystemClock
from gpuctl.errors import BackendError
from gpuctl.model.settings import KubernetesSettings

MOST_AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """Whether one may do a thing; `rule` is the RBAC rule that allows it."""

    allowed: bool
    reason: str
    rule: str


class KubernetesClient:
    """Safe to share between threads; a context manager. Nothing is opened before the first call.

    Every method raises BackendError when the API is out of reach, denies access or answers
    nonsense (`problems` has the subclasses), TimeoutReached when the deadline has passed, and
    ConfigError when the kubeconfig can't be used. Reads are repeated when the line breaks or the
    server is busy; writes never are: one whose answer was lost raises AnswerLostError.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        *,
        request_timeout: timedelta | float,
        environ: Mapping[str, str],
        deadline: Deadline | None = None,
        on_retry: Callable[[Retry], None] | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] | None = None,
        random: Callable[[], float] = random_module.random,
        login_options: LoginOptions | None = None,
    ) -> None:
        """`request_timeout` is for one call, `deadline` for the command."""
        options = login_options or LoginOptions(environ)

        def login_in_time() -> LoginOptions:
            if deadline is None:
                return options
            most = min(options.plugin_seconds, deadline.remaining())
            return replace(options, plugin_seconds=most)

        self.session = ApiSession(
            lambda: log_in(settings, login_in_time()),
            Limits(
                request_timeout,
                deadline,
                most_connections=MOST_AT_ONCE,
                sleep=sleep,
                random=random,
                clock=clock or SystemClock(),
            ),
            on_retry=on_retry,
        )
        self.node = NodeMarks(self.session)
        self.leases = Leases(self.session)
        self.config_maps = ConfigMaps(self.session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def shown_url(self) -> str:
        """The address for people; the first use logs in."""
        return self.session.login.server

    def close(self) -> None:
        """Close the connections."""
        self.session.close()

    # -- reading -----------------------------------------------------------------------------------

    def version(self) -> str:
        """The server's version, such as `v1.36.2`."""
        call = Call("GET", "/version", Access("get", "version"))
        return r.decoded(self.session.expect(call), meta.Version, self.session, call).git_version

    def nodes(self, selection: Selection = EVERYTHING) -> tuple[wire.Node, ...]:
        """All nodes."""
        return r.list_all(self.session, r.NODES, wire.NodeList, selection)[0]

    def pods(
        self, selection: Selection = EVERYTHING, *, page_size: int = r.PAGE
    ) -> tuple[wire.Pod, ...]:
        """Pods, by default of every namespace."""
        return self.pods_at(selection, page_size=page_size)[0]

    def pods_at(
        self, selection: Selection = EVERYTHING, *, page_size: int = r.PAGE
    ) -> tuple[tuple[wire.Pod, ...], str]:
        """Pods, and the version that a watch goes on from."""
        return r.list_all(self.session, r.PODS, wire.PodList, selection, page_size=page_size)

    def budgets(self, selection: Selection = EVERYTHING) -> tuple[wire.Budget, ...]:
        """PodDisruptionBudgets."""
        return r.list_all(self.session, r.BUDGETS, wire.BudgetList, selection)[0]

    def priority_classes(self) -> tuple[wire.PriorityClass, ...]:
        """Priority classes."""
        return r.list_all(self.session, r.PRIORITY_CLASSES, wire.PriorityClassList)[0]

    def replica_sets(self, selection: Selection = EVERYTHING) -> tuple[meta.OnlyMetadata, ...]:
        """Names and owners of ReplicaSets; more is not asked for."""
        return r.list_all(
            self.session, r.REPLICA_SETS, meta.MetadataList, selection, only_metadata=True
        )[0]

    def read_pod(self, namespace: str, name: str) -> wire.Pod | None:
        """The pod as it is now, None when there is none."""
        return r.read_one(self.session, r.PODS, wire.Pod, name, namespace)

    def read_node(self, name: str) -> wire.Node | None:
        """The node as it is now, None when there is none."""
        return r.read_one(self.session, r.NODES, wire.Node, name)

    def read_budget(self, namespace: str, name: str) -> wire.Budget | None:
        """The budget with its numbers of now, None when there is none."""
        return r.read_one(self.session, r.BUDGETS, wire.Budget, name, namespace)

    def watch_pods(
        self, resource_version: str, *, seconds: float, selection: Selection = EVERYTHING
    ) -> Iterator[PodEvent]:
        """Changes after a version (of `pods_at`), for `seconds`; broken streams are taken up again.

        A selection has to be that of the list.
        """
        call = Call(
            "GET",
            r.PODS.path(namespace=selection.namespace),
            r.PODS.access("watch", selection.namespace),
            query=selection.query,
        )
        return PodWatch(
            self.session, call, resource_version, seconds, lambda: self.pods_at(selection)
        ).events()

    def may(self, verb: str, kind: r.Kind, *, sub: str = "", namespace: str = "") -> AccessAnswer:
        """Whether we may do this; `namespace` "" asks for the whole cluster."""
        access = kind.access(verb, namespace or None, sub)
        attributes = {
            "verb": verb,
            "group": kind.group,
            "resource": kind.resource,
            "subresource": sub,
            "namespace": namespace,
        }
        call = Call(
            "POST",
            r.ACCESS_REVIEWS.path(),
            r.ACCESS_REVIEWS.access("create"),
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
            },
            is_harmless=True,
        )
        review = r.decoded(self.session.expect(call), meta.AccessReview, self.session, call)
        return AccessAnswer(review.status.allowed, review.status.reason, access.rule)

    # -- changing ----------------------------------------------------------------------------------

    def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> EvictionAnswer:
        """Ask once for the eviction of the pod with this UID; a dry run can't evict.

        Read the pod just before: a wrong UID costs its budget two minutes. Raises ForbiddenError,
        AnswerLostError (ask the cluster what became of it) and other BackendErrors.
        """
        call = Call(
            "POST",
            path_of("api", "v1", "namespaces", namespace, "pods", name, "eviction"),
            r.PODS.access("create", namespace, "eviction"),
            query=eviction_query(dry_run=dry_run),
            body=eviction_body(
                namespace,
                name,
                uid=uid,
                grace_period_seconds=grace_period_seconds,
                dry_run=dry_run,
            ),
        )
        try:
            answer = self.session.ask(call)
        except AnswerLostError as exc:
            if not dry_run:
                raise
            raise BackendError(
                f"no answer to the dry run for {namespace}/{name}", cause=exc.cause
            ) from exc
        found = eviction_answer(answer, dry_run=dry_run)
        if found is None:
            raise self.session.refused(answer, call)
        return found

    def record(self, note: EventNote, *, instance: str) -> None:
        """Write an Event. Its failure must never fail a run: catch BackendError.

        `instance` says which gpuctl it was (host and process).
        """
        now = self.session.now()
        call = Call(
            "POST",
            r.EVENTS.path(namespace=note.namespace),
            r.EVENTS.access("create", note.namespace),
            body=event_body(note, instance=instance, now=now),
        )
        self.session.expect(call)

    def server_time(self) -> datetime | None:
        """The server's clock in whole seconds, by which a Lease has to be judged."""
        call = Call("GET", "/version", Access("get", "version"))
        at = self.session.expect(call).date
        return None if at is None else datetime.fromtimestamp(at, UTC)
