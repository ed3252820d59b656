"""Starting migrations, and following tasks: the calls of the Proxmox VE API that act."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpuctl.clients.proxmox_api import ProxmoxApi
from gpuctl.clients.proxmox_errors import ProxmoxError, Trouble
from gpuctl.clients.proxmox_wire import LogLine, TaskLog, TaskRow, TaskStatus, Upid, parse_upid
from gpuctl.errors import UsageError

_PAGE_LINES = 500
_MOST_TASKS = 500
#: Types of tasks that move a VM; the HA stack's one only asks for it.
MIGRATIONS = ("qmigrate", "hamigrate")


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """What a migration is asked to do.

    `target_storage`: a storage, `SRC:DST` pairs with commas, or "1" for the same ones.
    `bwlimit_kib`: KiB/s, 0 for none, None for the cluster's default. The last two are for root
    alone, and no token is root: they are refused before anything is asked.
    """

    online: bool = False
    with_local_disks: bool = False
    target_storage: str | None = None
    bwlimit_kib: int | None = None
    migration_network: str | None = None
    migration_type: str | None = None

    def check(self) -> None:
        """Raise UsageError for what no API token may ask for."""
        asked = {
            "--migration-network": self.migration_network,
            "--migration-type": self.migration_type,
        }
        named = [option for option, value in asked.items() if value is not None]
        if named:
            raise UsageError(
                f"{' and '.join(named)} can't be used with an API token",
                cause="Proxmox VE allows it to root@pam with a password alone, to no token",
                hint="set it for the whole cluster instead: `migration: type=...,network=...` in "
                "/etc/pve/datacenter.cfg",
            )

    def form(self, target: str) -> dict[str, str | int]:
        """The parameters of the call: flags are 0 or 1, and what is unset is left out."""
        wanted: dict[str, str | int] = {"target": target, "online": int(self.online)}
        if self.with_local_disks:
            wanted["with-local-disks"] = 1
        if self.target_storage is not None:
            wanted["targetstorage"] = self.target_storage
        if self.bwlimit_kib is not None:
            wanted["bwlimit"] = self.bwlimit_kib
        return wanted


class TaskCalls:
    """The part of the client that starts, watches and stops tasks."""

    _api: ProxmoxApi

    def start_migration(self, node: str, vmid: int, target: str, options: MigrateOptions) -> Upid:
        """Ask for a migration, once; the task's UPID, which is not yet a success.

        Raises UsageError for options that are root's alone. When the error's `may_have_run` is
        set, look with `started_since` before anything is asked again.
        """
        options.check()
        answer = self._api.write(
            f"migrate VM {vmid} to {target}",
            "POST",
            ("nodes", node, "qemu", str(vmid), "migrate"),
            options.form(target),
        )
        try:
            return parse_upid(str(answer))
        except UsageError as exc:
            raise ProxmoxError(
                f"the answer to the migration of VM {vmid} is no task",
                kind=Trouble.OTHER,
                cause=f"in place of a UPID it is {str(answer)[:60]!r}",
                hint="look at the tasks of the VM before it is asked again",
                may_have_run=True,
            ) from exc

    def shutdown_vm(self, node: str, vmid: int, *, timeout_seconds: int) -> Upid:
        """Ask the guest to shut down; the task's UPID. Needs VM.PowerMgmt."""
        return self._power(node, vmid, "shutdown", {"timeout": timeout_seconds})

    def start_vm(self, node: str, vmid: int) -> Upid:
        """Start a VM; the task's UPID. Needs VM.PowerMgmt."""
        return self._power(node, vmid, "start", {})

    def _power(self, node: str, vmid: int, verb: str, values: Mapping[str, int]) -> Upid:
        path = ("nodes", node, "qemu", str(vmid), "status", verb)
        return parse_upid(str(self._api.write(f"{verb} VM {vmid}", "POST", path, dict(values))))

    # -- tasks -----------------------------------------------------------------------------------

    def task_status(self, upid: Upid) -> TaskStatus:
        """How a task does; asked on the node that runs it, the only one that knows."""
        return self._api.read(
            f"read the state of the task {upid.type} {upid.id} on {upid.node}",
            ("nodes", upid.node, "tasks", upid.text, "status"),
            TaskStatus,
        )

    def task_log(self, upid: Upid, *, start: int = 0, limit: int = _PAGE_LINES) -> TaskLog:
        """One page of a task's log, beginning after `start` lines; 0 lines when it is empty."""
        lines, total = self._api.read_with_total(
            f"read the log of the task {upid.type} {upid.id} on {upid.node}",
            ("nodes", upid.node, "tasks", upid.text, "log"),
            tuple[LogLine, ...],
            {"start": start, "limit": limit},
        )
        if len(lines) == 1 and lines[0].t == "no content":
            return TaskLog((), 0)
        if len(lines) == 1 and lines[0].t.startswith("unable to open file"):
            raise ProxmoxError(
                f"the log of the task {upid.type} {upid.id} is not on {upid.node}",
                kind=Trouble.NO_SUCH_TASK,
                cause=lines[0].t[:200],
                hint="it was rotated away, or the UPID is of another cluster",
            )
        return TaskLog(lines, total)

    def task_log_after(self, upid: Upid, start: int) -> tuple[str, ...]:
        """All lines after the first `start` ones, however many pages that takes."""
        texts: list[str] = []
        while True:
            page = self.task_log(upid, start=start + len(texts))
            texts += [line.t for line in page.lines]
            if len(page.lines) < _PAGE_LINES:
                return tuple(texts)

    def task_log_tail(self, upid: Upid, last: int) -> tuple[str, ...]:
        """The last lines of a task's log: two short requests, however long it is."""
        total = self.task_log(upid, limit=1).total or 0
        page = self.task_log(upid, start=max(0, total - last), limit=last)
        return tuple(line.t for line in page.lines)

    def tasks(
        self, node: str, *, vmid: int | None = None, source: str = "all"
    ) -> tuple[TaskRow, ...]:
        """Running and recent tasks of a node, or of a VM there, the newest first.

        `source` is all, active or archive. Tasks of others only with Sys.Audit on the node.
        """
        values: dict[str, str | int] = {"source": source, "limit": _MOST_TASKS}
        if vmid is not None:
            values["vmid"] = vmid
        rows = self._api.read(
            f"list the tasks of {node}", ("nodes", node, "tasks"), tuple[TaskRow, ...], values
        )
        return tuple(sorted(rows, key=lambda row: row.starttime or 0, reverse=True))

    def migration_tasks(self, node: str, vmid: int) -> frozenset[str]:
        """UPIDs of all known migrations of a VM on its node; to be remembered before a POST."""
        rows = self.tasks(node, vmid=vmid)
        return frozenset(row.upid for row in rows if row.type in MIGRATIONS)

    def started_since(self, node: str, vmid: int, known: Collection[str]) -> Upid | None:
        """The newest migration of a VM that is not among `known`, as after a lost answer.

        No clock is compared. None is certain only if the VM has no lock either.
        """
        for row in self.tasks(node, vmid=vmid):
            if row.type in MIGRATIONS and row.upid not in known:
                return parse_upid(row.upid)
        return None

    def running_migrations(self, node: str) -> tuple[TaskRow, ...]:
        """Migrations that a node is the source of at this moment, of any VM."""
        rows = self.tasks(node, source="active")
        return tuple(row for row in rows if row.type in MIGRATIONS and row.is_running)

    def stop_task(self, upid: Upid) -> None:
        """Ask a task to stop; the server waits up to 5 s for it to clean up."""
        self._api.write(
            f"stop the task {upid.type} {upid.id} on {upid.node}",
            "DELETE",
            ("nodes", upid.node, "tasks", upid.text),
        )
