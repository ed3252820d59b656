"""A fake Proxmox VE cluster over HTTPS: several endpoints, one state, tasks that move by steps.

with FakeProxmox(recorded_cluster("8.4"), tls=tls) as pve:
    client = ProxmoxClient(ProxmoxSettings(endpoints=pve.endpoints, **pve.login), ...)
    upid = client.start_migration("gpu-node-1", 104, "gpu-node-2", MigrateOptions(online=True))
    pve.finish(upid.text)

Nothing happens by itself: `advance`, `finish` and `ha_round` move things on, or
`advance_on_poll` does with each question after a task.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from gpuctl.sim.world import World
from tests.fakes import proxmox_answers as answers
from tests.fakes.http_server import FakeServer, Reply, Request, ServerTls
from tests.fakes.proxmox_migration import (
    Refused,
    check_call,
    ha_steps,
    migration_steps,
    preconditions,
    stop_steps,
    vm_on,
    wrong_parameters,
)
from tests.fakes.proxmox_state import Cluster, Task, Vm, recorded_cluster
from tests.fakes.proxmox_world import cluster_of

TOKEN_ID = "gpuctl@pve!oncall"
SECRET = "7a1f0c2e-6c59-4d0a-8d3b-5ec2e75ec2e7"


@dataclass
class Fault:
    """Answers a matching request with `reply` instead, so many times.

    `accepted`: the request is carried out all the same, and only its answer is lost.
    """

    method: str
    path: str
    reply: Reply
    times: int = 1
    accepted: bool = False

    def matches(self, request: Request) -> bool:
        """Whether it is this one's turn."""
        is_path = re.search(self.path, unquote(request.path)) is not None
        return self.times > 0 and request.method == self.method and is_path


@dataclass
class FakeProxmox:
    """Serves a cluster at `count` endpoints. `rights`: path -> privileges, None for all.

    `secret` is the one that is accepted at the moment; a token is revoked by changing it.
    """

    cluster: Cluster = field(default_factory=recorded_cluster)
    tls: ServerTls | None = None
    count: int = 2
    rights: dict[str, set[str]] | None = None
    secret: str = SECRET
    advance_on_poll: int = 0
    faults: list[Fault] = field(default_factory=list)
    servers: list[FakeServer] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._stack = ExitStack()
        self._asked_ha: list[tuple[int, str]] = []
        self._pid = 0x262
        self.servers = [FakeServer(self._serve, tls=self.tls) for _ in range(self.count)]

    @classmethod
    def of(cls, world: World, **options: Any) -> FakeProxmox:
        """The hypervisors under a simulated cluster, with its VMs and their cards."""
        return cls(cluster_of(world), **options)

    def __enter__(self) -> FakeProxmox:
        for server in self.servers:
            self._stack.enter_context(server)
        return self

    def __exit__(self, *failure: Any) -> None:
        self._stack.__exit__(*failure)

    # -- for tests -------------------------------------------------------------------------------

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What to configure as proxmox.endpoints."""
        return tuple(server.url for server in self.servers)

    @property
    def requests(self) -> list[Request]:
        """Every request to any endpoint, in the order of the endpoints."""
        return [request for server in self.servers for request in server.requests]

    def sent(self, method: str) -> list[str]:
        """The paths asked with a method, without the common prefix, in order per endpoint."""
        found = (request for request in self.requests if request.method == method)
        return [unquote(request.path).removeprefix("/api2/json") for request in found]

    def endpoint_down(self, index: int) -> None:
        """Nothing listens there any more."""
        self.servers[index].close()

    def fail(self, method: str, path: str, reply: Reply, **more: Any) -> None:
        """The next matching request gets this answer."""
        self.faults.append(Fault(method, path, reply, **more))

    def lose_answer(self, method: str, path: str) -> None:
        """The next matching request is carried out, and the connection breaks before the answer."""
        self.fail(method, path, Reply(drop=True), accepted=True)

    def advance(self, upid: str, steps: int = 1) -> Task:
        """Let a task do its next steps; the clock goes on by a second for each."""
        with self._lock:
            task = self.cluster.tasks[upid]
            for _ in range(steps):
                if not self._step(task):
                    break
            return task

    def finish(self, upid: str) -> Task:
        """Let a task run to its end."""
        with self._lock:
            task = self.cluster.tasks[upid]
            while self._step(task):
                pass
            return task

    def ha_round(self) -> list[str]:
        """The HA manager acts on what it was asked for; UPIDs of the tasks it has begun."""
        with self._lock:
            asked, self._asked_ha = self._asked_ha, []
            return [self._ha_migration(self.cluster.vms[vmid], target) for vmid, target in asked]

    def only_task(self) -> Task:
        """The task, when there is exactly one."""
        (task,) = self.cluster.tasks.values()
        return task

    # -- tasks -----------------------------------------------------------------------------------

    def _step(self, task: Task) -> bool:
        self.cluster.now += 1
        lines = next(task.steps, None)
        if lines is None:
            return False
        stamp = self.cluster.stamp()
        bare = ("TASK ", "Requesting HA")
        task.lines += [t if t.startswith(bare) else f"{stamp} {t}" for t in lines]
        return True

    def _task(self, kind: str, vm: Vm, user: str, steps: Callable[[Task], Any]) -> Task:
        self.cluster.now += 1
        self._pid += 1
        user_part, _, token = user.partition("!")
        start = self.cluster.now
        upid = (
            f"UPID:{vm.node}:{self._pid:08X}:{0x616B5 + self._pid:08X}:{start:08X}:"
            f"{kind}:{vm.vmid}:{user}:"
        )
        task = Task(upid, vm.node, kind, vm.vmid, user_part, start, iter(()), token or None)
        task.steps = steps(task)
        self.cluster.tasks[upid] = task
        return task

    def _ha_migration(self, vm: Vm, target: str) -> str:
        def steps(task: Task) -> Iterator[tuple[str, ...]]:
            yield ("task started by HA resource agent",)
            form = {"with-local-disks": "1"}
            yield from migration_steps(self.cluster, vm, target, form, task)
            vm.ha_state = "started"

        vm.ha_state = "migrate"
        return self._task("qmigrate", vm, "root@pam", steps).upid

    # -- serving ---------------------------------------------------------------------------------

    def _serve(self, request: Request) -> Reply:
        with self._lock:
            fault = next((one for one in self.faults if one.matches(request)), None)
            if fault is not None:
                fault.times -= 1
                if fault.accepted:
                    self._answer(request)
                return fault.reply
            return self._answer(request)

    def _answer(self, request: Request) -> Reply:
        path = request.path.removeprefix("/api2/json/")
        parts = [unquote(part) for part in path.split("/") if part]
        sent = request.headers.get("authorization")
        if sent is None:
            return _empty(401, "No ticket")
        if sent != f"PVEAPIToken={TOKEN_ID}={self.secret}":
            return _empty(401, "Authentication failed!")
        try:
            data, total = self._routed(request, parts)
        except Refused as refused:
            return self._refusal(refused)
        except _NodeDown:
            return _empty(595, "No route to host")
        body = {"data": data} if total is None else {"data": data, "total": total}
        return _json(200, None, body)

    def _refusal(self, refused: Refused) -> Reply:
        body: dict[str, Any] = {"data": None}
        if self.cluster.number >= (8, 4):
            newline = "" if refused.status == 501 else "\n"
            body["message"] = refused.reason + newline
        if refused.fields is not None:
            body["errors"] = refused.fields
        return _json(refused.status, refused.reason, body)

    def _routed(self, request: Request, parts: Sequence[str]) -> tuple[Any, int | None]:
        params = dict(request.params)
        verb = (request.method, *parts)
        match verb:
            case ("GET", "access", "permissions"):
                return self._permissions(params.get("path")), None
            case ("GET", *rest) if rest[:1] != ["nodes"] or rest == ["nodes"]:
                found = answers.of_cluster(self.cluster, rest, params, self._may)
            case (_, "nodes", node, *rest):
                found = self._of_node(request.method, node, rest, params)
            case _:
                found = answers.NOTHING
        if found is answers.NOTHING:
            raise Refused(501, f"Method '{request.method} /{'/'.join(parts)}' not implemented")
        return found if isinstance(found, tuple) else (found, None)

    def _of_node(self, method: str, node: str, rest: Sequence[str], params: dict[str, str]) -> Any:
        if node not in self.cluster.nodes:
            raise Refused(
                500,
                f"hostname lookup '{node}' failed - failed to get address info for: {node}: "
                "Name or service not known",
            )
        if not self.cluster.nodes[node].online:
            raise _NodeDown
        match (method, *rest):
            case ("GET", "qemu", vmid, "migrate"):
                self._require(f"/vms/{vmid}", "VM.Migrate")
                return preconditions(self.cluster, vm_on(self.cluster, node, int(vmid)))
            case ("POST", "qemu", vmid, "migrate"):
                self._require(f"/vms/{vmid}", "VM.Migrate")
                return self._migrate(node, int(vmid), params)
            case ("POST", "qemu", vmid, "status", ("start" | "shutdown") as verb):
                self._require(f"/vms/{vmid}", "VM.PowerMgmt")
                return self._power(vm_on(self.cluster, node, int(vmid)), verb)
            case ("GET", "tasks", upid, "status") if upid in self.cluster.tasks:
                if self.advance_on_poll:
                    self.advance(upid, self.advance_on_poll)
                if self.cluster.tasks[upid].node != node:
                    raise wrong_parameters(upid="no such task")
                return self.cluster.tasks[upid].row()
            case ("DELETE", "tasks", upid) if upid in self.cluster.tasks:
                return self._stop(self.cluster.tasks[upid])
            case ("GET", *_):
                return answers.of_node(self.cluster, node, rest, params, self._may)
            case _:
                return answers.NOTHING

    def _migrate(self, node: str, vmid: int, form: dict[str, str]) -> str:
        vm = check_call(self.cluster, node, vmid, form)
        target = form["target"]
        if vm.ha_state not in (None, "ignored"):
            if vm.migration != "ha-ignores":
                self._asked_ha.append((vmid, target))
            task = self._task(
                "hamigrate", vm, TOKEN_ID, lambda task: ha_steps(self.cluster, vm, target, task)
            )
        else:
            task = self._task(
                *("qmigrate", vm, TOKEN_ID),
                lambda task: migration_steps(self.cluster, vm, target, form, task),
            )
        return task.upid

    def _power(self, vm: Vm, verb: str) -> str:
        def steps(task: Task) -> Iterator[tuple[str, ...]]:
            vm.status = "running" if verb == "start" else "stopped"
            task.exitstatus, task.endtime = "OK", self.cluster.now
            yield ("TASK OK",)

        return self._task(f"qm{verb}", vm, TOKEN_ID, steps).upid

    def _stop(self, task: Task) -> None:
        if task.exitstatus is None:
            vm = self.cluster.vms[task.vmid]
            task.steps = stop_steps(self.cluster, vm, task)
            while self._step(task):
                pass

    # -- rights ----------------------------------------------------------------------------------

    def _may(self, path: str, right: str) -> bool:
        if self.rights is None:
            return True
        steps = path.strip("/").split("/")
        prefixes = ["/", *("/" + "/".join(steps[: n + 1]) for n in range(len(steps)))]
        return any(right in self.rights.get(prefix, ()) for prefix in prefixes)

    def _require(self, path: str, right: str) -> None:
        if not self._may(path, right):
            raise Refused(403, f"Permission check failed ({path}, {right})")

    def _permissions(self, path: str | None) -> dict[str, dict[str, int]]:
        if path is None:
            rights = self.rights if self.rights is not None else {"/": set(_RIGHTS)}
            return {where: dict.fromkeys(sorted(held), 1) for where, held in rights.items()}
        held = [right for right in _RIGHTS if self._may(path, right)]
        return {path: dict.fromkeys(held, 1)} if held else {}


_RIGHTS = (
    "Datastore.AllocateSpace",
    "VM.Audit",
    "VM.Migrate",
    "VM.PowerMgmt",
    "VM.Config.Disk",
    "Sys.Audit",
    "Mapping.Audit",
)


class _NodeDown(Exception):  # noqa: N818 - it is an answer, not a fault
    """The node in the path is off."""


def _json(status: int, reason: str | None, body: dict[str, Any]) -> Reply:
    return Reply(status, json.dumps(body).encode(), content_type="application/json", reason=reason)


def _empty(status: int, reason: str) -> Reply:
    return Reply(status, reason=reason)


def gateway_without_reasons(reply: Reply) -> Reply:
    """The answer behind a gateway that puts the usual text of the status in place of its own."""
    return replace(reply, reason=None)
