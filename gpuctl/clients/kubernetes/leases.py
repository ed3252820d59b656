"""Objects that are changed by their version: Leases (locks) and ConfigMaps (intents).

A change names the version it was made from; somebody else's change in between is a ConflictError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuctl.clients.http import Answer
from gpuctl.clients.kubernetes import reading as r
from gpuctl.clients.kubernetes.meta import ObjectMeta
from gpuctl.clients.kubernetes.problems import NotFoundError
from gpuctl.clients.kubernetes.session import ApiSession, Call, Method
from gpuctl.clients.kubernetes.wire import ConfigMap, Lease, LeaseSpec, as_micro_time


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as read; `server_time` is the server's clock then, in whole seconds."""

    lease: Lease
    server_time: datetime | None

    def is_held(self, now: datetime, *, margin_seconds: float = 5.0) -> bool:
        """Whether somebody holds it at `now`; take the server's time where it is known."""
        spec = self.lease.spec
        if not spec.holder_identity:
            return False
        if spec.renew_time is None or spec.lease_duration_seconds is None:
            return True
        age = (now - spec.renew_time).total_seconds()
        return age <= spec.lease_duration_seconds + margin_seconds


class Leases:
    """Locks in the cluster (coordination.k8s.io/v1)."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, namespace: str, name: str) -> SeenLease | None:
        """The lease, None when there is none."""
        kind = r.LEASES
        call = Call("GET", kind.path(name, namespace=namespace), kind.access("get", namespace))
        try:
            answer = self._session.expect(call)
        except NotFoundError:
            return None
        return self._seen(answer, call)

    def create(self, namespace: str, name: str, spec: LeaseSpec) -> SeenLease:
        """A new lease. Raises ConflictError when somebody was quicker."""
        call = _write("POST", r.LEASES, _lease_body(namespace, name, spec, None), namespace)
        return self._seen(self._session.expect(call), call)

    def update(self, seen: Lease, spec: LeaseSpec) -> SeenLease:
        """Replace what was seen. Raises ConflictError when it changed since."""
        meta = seen.metadata
        body = _lease_body(meta.namespace, meta.name, spec, meta)
        call = _write("PUT", r.LEASES, body, meta.namespace, meta.name)
        return self._seen(self._session.expect(call), call)

    def release(self, held: Lease) -> SeenLease:
        """Give it back at once. Raises ConflictError when it is somebody else's by now."""
        spec = held.spec
        return self.update(
            held,
            LeaseSpec(
                holder_identity="",
                lease_duration_seconds=spec.lease_duration_seconds,
                acquire_time=spec.acquire_time,
                renew_time=spec.renew_time,
                lease_transitions=spec.lease_transitions,
            ),
        )

    def _seen(self, answer: Answer, call: Call) -> SeenLease:
        lease = r.decoded(answer, Lease, self._session, call)
        at = answer.date
        return SeenLease(lease, None if at is None else datetime.fromtimestamp(at, UTC))


class ConfigMaps:
    """Small texts in the cluster."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, namespace: str, name: str) -> ConfigMap | None:
        """The map, None when there is none."""
        return r.read_one(self._session, r.CONFIG_MAPS, ConfigMap, name, namespace)

    def create(self, namespace: str, name: str, data: Mapping[str, str]) -> ConfigMap:
        """A new map. Raises ConflictError when it exists."""
        body = _map_body(namespace, name, data, None)
        return self._written(_write("POST", r.CONFIG_MAPS, body, namespace))

    def update(self, seen: ConfigMap, data: Mapping[str, str]) -> ConfigMap:
        """Replace all its data. Raises ConflictError when it changed since it was seen."""
        meta = seen.metadata
        body = _map_body(meta.namespace, meta.name, data, meta)
        return self._written(_write("PUT", r.CONFIG_MAPS, body, meta.namespace, meta.name))

    def _written(self, call: Call) -> ConfigMap:
        return r.decoded(self._session.expect(call), ConfigMap, self._session, call)


def _write(method: Method, kind: r.Kind, body: Any, namespace: str, *name: str) -> Call:
    verb = "create" if method == "POST" else "update"
    return Call(
        method,
        kind.path(*name, namespace=namespace),
        kind.access(verb, namespace),
        query=(("fieldValidation", "Strict"),),
        body=body,
    )


def _meta(namespace: str, name: str, seen: ObjectMeta | None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if seen is not None:
        meta["resourceVersion"] = seen.resource_version
        meta["labels"] = seen.labels
        meta["annotations"] = seen.annotations
    return {key: value for key, value in meta.items() if value}


def _lease_body(
    namespace: str, name: str, spec: LeaseSpec, seen: ObjectMeta | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "holderIdentity": spec.holder_identity,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": as_micro_time(spec.acquire_time) if spec.acquire_time else None,
        "renewTime": as_micro_time(spec.renew_time) if spec.renew_time else None,
        "leaseTransitions": spec.lease_transitions,
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _meta(namespace, name, seen),
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def _map_body(
    namespace: str, name: str, data: Mapping[str, str], seen: ObjectMeta | None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(namespace, name, seen),
        "data": dict(data),
    }
