"""Who uses a device, and how much of it where the exporter measures per process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuctl.metrics import names as n
from gpuctl.metrics.labels import WorkloadName
from gpuctl.metrics.rows import PRESENCE, Row
from gpuctl.model.gpu import Tenant

# The figures that the exporter gives a row per pod for.
_USER_FAMILIES = frozenset({n.UTILIZATION, n.ENGINE_ACTIVE, n.MEMORY_USED, PRESENCE})

Rank = Callable[[str], int]


def tenants(rows: Iterable[Row], rank: Rank) -> tuple[Tenant, ...]:
    """The workloads on a device by name. `rank`: the trust in a metric's name, lower is better."""
    rows = list(rows)
    users: dict[str, WorkloadName] = {}
    for row in rows:
        if row.user is not None and row.family in _USER_FAMILIES:
            held = users.get(row.user.id)
            if held is None or _container(row.user) < _container(held):
                users[row.user.id] = row.user
    utilization = _shares(rows, n.UTILIZATION, rank)
    memory = _shares(rows, n.MEMORY_USED, rank)
    return tuple(
        Tenant(
            workload=key,
            kind="job" if user.kind == "job" else "pod",
            container=user.container,
            utilization_pct=utilization.get(key),
            memory_used_mib=memory.get(key),
            measured=key in utilization or key in memory,
        )
        for key, user in sorted(users.items())
    )


def _container(user: WorkloadName) -> tuple[bool, str]:
    """Orders the containers of a pod, so that the same one is named whatever the rows' order."""
    return (user.container is None, user.container or "")


def _shares(rows: Iterable[Row], family: str, rank: Rank) -> dict[str, float]:
    """Each workload's measured share: only where one target gives a row for the card as well.

    Without such a row the rows of the workloads are copies of the card's figure. Containers of a
    pod add up; replicas and further exporters say the same once more, as do further names.
    """
    targets: dict[tuple[int, object], dict[WorkloadName | None, float]] = {}
    for row in rows:
        if row.family == family and row.value is not None:
            said = targets.setdefault((rank(row.name), row.source), {})
            said[row.user] = max(row.value, said.get(row.user, row.value))
    best: dict[str, tuple[int, float]] = {}
    for (trust, _), said in targets.items():
        if None not in said:
            continue
        totals: dict[str, float] = {}
        for user, value in said.items():
            if user is not None:
                totals[user.id] = totals.get(user.id, 0.0) + value
        for key, total in totals.items():
            if key not in best or (trust, -total) < (best[key][0], -best[key][1]):
                best[key] = (trust, total)
    return {key: total for key, (_, total) in best.items()}
