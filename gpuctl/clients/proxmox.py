"""Client of the Proxmox VE API: inventory, preconditions of a migration, and its tasks.

Every method raises ProxmoxError (a BackendError that says which family of failure it is),
TimeoutReached when the deadline has passed, and ConfigError when a secret or a certificate can't
be read. Reads fail over between the endpoints; writes are sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from gpuctl.clients.proxmox_api import REQUEST_SECONDS, ProxmoxApi
from gpuctl.clients.proxmox_errors import ProxmoxError, Trouble
from gpuctl.clients.proxmox_tasks import MIGRATIONS, MigrateOptions, TaskCalls
from gpuctl.clients.proxmox_wire import (
    ClusterRow,
    ClusterStatus,
    HaResource,
    HaStatusRow,
    MdevType,
    NodeRow,
    NodeStatus,
    PciDevice,
    PciMapping,
    Preconditions,
    Replication,
    Resource,
    Storage,
    Upid,
    Version,
    VmSnapshot,
    VmStatus,
    parse_upid,
)
from gpuctl.clock import Clock, Deadline
from gpuctl.model.settings import ProxmoxSettings

__all__ = [
    "MIGRATIONS",
    "MigrateOptions",
    "ProxmoxClient",
    "ProxmoxError",
    "Trouble",
    "Upid",
    "parse_upid",
]


class ProxmoxClient(TaskCalls):
    """One Proxmox VE cluster. Safe to share between threads; a context manager."""

    def __init__(
        self,
        settings: ProxmoxSettings,
        *,
        environ: Mapping[str, str],
        request_timeout: timedelta | float = REQUEST_SECONDS,
        deadline: Deadline | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], None] | None = None,
        random: Callable[[], float] | None = None,
    ) -> None:
        """Open nothing yet. `request_timeout` is for one call, `deadline` for the command."""
        chosen: dict[str, Any] = {} if random is None else {"random": random}
        self._api = ProxmoxApi(
            settings,
            environ=environ,
            request_timeout=request_timeout,
            deadline=deadline,
            clock=clock,
            sleep=sleep,
            **chosen,
        )

    def __repr__(self) -> str:
        return f"ProxmoxClient({', '.join(self._api.endpoints)})"

    def __enter__(self) -> ProxmoxClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._api.close()

    @property
    def token_id(self) -> str:
        """Whose rights count: `USER@REALM!NAME`."""
        return self._api.token_id

    @property
    def shown(self) -> str:
        """The first endpoint, for a message."""
        return self._api.endpoints[0]

    # -- the cluster -----------------------------------------------------------------------------

    def version(self) -> Version:
        """The release of the node that answers; nodes may differ during an upgrade."""
        return self._api.read("read the version", ("version",), Version)

    def cluster_status(self) -> ClusterStatus:
        """Quorum, and which nodes are online. Needs Sys.Audit on /."""
        rows = self._api.read(
            "read the cluster's status", ("cluster", "status"), tuple[ClusterRow, ...]
        )
        cluster = next((row for row in rows if row.type == "cluster"), None)
        return ClusterStatus(
            name=cluster.name if cluster else None,
            quorate=cluster is None or bool(cluster.quorate),
            online={row.name: bool(row.online) for row in rows if row.type == "node"},
        )

    def resources(self, kind: str | None = None) -> tuple[Resource, ...]:
        """All VMs, containers, nodes and storages the token may see, or those of one kind.

        `kind` is vm, node or storage. Missing rights give fewer rows, not an error.
        """
        values = {"type": kind} if kind else {}
        return self._api.read(
            "list the cluster's resources",
            ("cluster", "resources"),
            tuple[Resource, ...],
            values,
        )

    def cluster_options(self) -> dict[str, Any]:
        """The datacenter's options; `crs` among them says whether HA balances on its own."""
        return self._api.read(
            "read the datacenter's options", ("cluster", "options"), dict[str, Any]
        )

    def nodes(self) -> tuple[NodeRow, ...]:
        """All nodes with online, offline or unknown."""
        return self._api.read("list the nodes", ("nodes",), tuple[NodeRow, ...])

    def node_status(self, node: str) -> NodeStatus:
        """Memory and processors of a node. Needs Sys.Audit on it."""
        return self._api.read(f"read node {node}", ("nodes", node, "status"), NodeStatus)

    def storages(self, node: str) -> tuple[Storage, ...]:
        """The storages that a node has, with what is free there."""
        return self._api.read(
            f"list the storages of {node}", ("nodes", node, "storage"), tuple[Storage, ...]
        )

    def permissions(self, path: str | None = None) -> dict[str, dict[str, int]]:
        """The token's own rights by path; for one `path` those that are in force there."""
        values = {"path": path} if path else {}
        return self._api.read(
            "read the token's rights",
            ("access", "permissions"),
            dict[str, dict[str, int]],
            values,
        )

    def missing_rights(self, wanted: Mapping[str, Collection[str]]) -> tuple[tuple[str, str], ...]:
        """The (path, privilege) of `wanted` (path -> privileges) that the token lacks."""
        missing: list[tuple[str, str]] = []
        for path, rights in wanted.items():
            held = self.permissions(path).get(path, {})
            missing += [(path, right) for right in rights if right not in held]
        return tuple(missing)

    # -- devices ---------------------------------------------------------------------------------

    def pci_mappings(self, check_node: str | None = None) -> tuple[PciMapping, ...] | None:
        """The cluster's PCI mappings the token may see; None on releases before 8.0.

        With `check_node` each comes with what is wrong with it on that node.
        """
        values = {"check-node": check_node} if check_node else {}
        try:
            return self._api.read(
                "list the PCI mappings",
                ("cluster", "mapping", "pci"),
                tuple[PciMapping, ...],
                values,
            )
        except ProxmoxError as exc:
            if exc.kind is Trouble.NOT_IMPLEMENTED:
                return None
            raise

    def pci_devices(self, node: str) -> tuple[PciDevice, ...]:
        """The PCI devices of a node. Needs Sys.Audit or Sys.Modify on /."""
        return self._api.read(
            f"list the PCI devices of {node}",
            ("nodes", node, "hardware", "pci"),
            tuple[PciDevice, ...],
        )

    def mdev_types(self, node: str, device: str) -> tuple[MdevType, ...]:
        """What a device (address, or a mapping's id from 8.3 on) still has to give.

        For a mapping the figures are those of its first device alone: ask for each address.
        """
        return self._api.read(
            f"list the vGPU types of {device} on {node}",
            ("nodes", node, "hardware", "pci", device, "mdev"),
            tuple[MdevType, ...],
        )

    # -- VMs -------------------------------------------------------------------------------------

    def vm_config(self, node: str, vmid: int) -> dict[str, str]:
        """The configuration that the running VM has, without pending changes; all as texts."""
        raw = self._api.read(
            f"read the configuration of VM {vmid}",
            ("nodes", node, "qemu", str(vmid), "config"),
            dict[str, Any],
            {"current": 1},
        )
        return {key: str(value) for key, value in raw.items()}

    def vm_status(self, node: str, vmid: int) -> VmStatus:
        """State, lock and HA state of a VM now."""
        return self._api.read(
            f"read the state of VM {vmid}",
            ("nodes", node, "qemu", str(vmid), "status", "current"),
            VmStatus,
        )

    def vm_snapshots(self, node: str, vmid: int) -> tuple[VmSnapshot, ...]:
        """The snapshots of a VM, without the present state."""
        rows = self._api.read(
            f"list the snapshots of VM {vmid}",
            ("nodes", node, "qemu", str(vmid), "snapshot"),
            tuple[VmSnapshot, ...],
        )
        return tuple(row for row in rows if row.name != "current")

    def replications(self, vmid: int) -> tuple[Replication, ...]:
        """The jobs that copy a VM's disks to other nodes."""
        rows = self._api.read(
            "list the replication jobs", ("cluster", "replication"), tuple[Replication, ...]
        )
        return tuple(row for row in rows if row.guest == vmid)

    # -- high availability -----------------------------------------------------------------------

    def ha_resources(self) -> tuple[HaResource, ...]:
        """What the HA stack has in its hands. Needs Sys.Audit on /."""
        return self._api.read(
            "list the HA resources", ("cluster", "ha", "resources"), tuple[HaResource, ...]
        )

    def ha_status(self) -> tuple[HaStatusRow, ...]:
        """What the HA manager does now; a service that moves is in state migrate."""
        return self._api.read(
            "read the HA status",
            ("cluster", "ha", "status", "current"),
            tuple[HaStatusRow, ...],
        )

    # -- migration -------------------------------------------------------------------------------

    def migrate_preconditions(
        self, node: str, vmid: int, target: str | None = None
    ) -> Preconditions:
        """What the server says about moving a VM. Needs VM.Migrate, to read already.

        `target` is passed on, though releases up to 9 answer for all nodes alike.
        """
        values = {"target": target} if target else {}
        return self._api.read(
            f"read the preconditions for migrating VM {vmid}",
            ("nodes", node, "qemu", str(vmid), "migrate"),
            Preconditions,
            values,
        )
