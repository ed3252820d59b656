"""The fake answers as Proxmox VE does: held to the recorded bodies, and to a real cluster.

With GPUCTL_TEST_PVE_URL (one or more, with commas), GPUCTL_TEST_PVE_TOKEN_ID,
GPUCTL_TEST_PVE_TOKEN_FILE and GPUCTL_TEST_PVE_CA_FILE or _FINGERPRINT the second half runs
against a real cluster too. It only reads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from gpuctl.clients.proxmox import ProxmoxClient, Trouble, parse_upid
from gpuctl.clients.proxmox_wire import Preconditions
from gpuctl.model.settings import ProxmoxSettings
from tests.clients.proxmox_clients import client_of, refused
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import Reply, Request, ServerTls
from tests.fakes.proxmox import SECRET, TOKEN_ID, FakeProxmox
from tests.fakes.proxmox_state import Cluster, Vm, recorded_cluster

SAMPLES = Path(__file__).parent.parent / "data" / "proxmox"
RELEASES = ("7.4", "8.4", "9.2")
MAPPED = {"hostpci0": "mapping=h100-full,pcie=1"}
VMS = "/nodes/gpu-node-1/qemu"


def sample(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return loaded


def ask(
    fake: FakeProxmox,
    path: str,
    method: str = "GET",
    secret: str | None = SECRET,
    **form: str,
) -> Reply:
    """What the fake answers, without a network in between."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    if secret is not None:
        headers["authorization"] = f"PVEAPIToken={TOKEN_ID}={secret}"
    sent = {name.replace("_", "-") if "with" in name else name: v for name, v in form.items()}
    body, query = (urlencode(sent).encode(), "") if method == "POST" else (b"", urlencode(sent))
    url = "/api2/json" + quote(path, safe="/")
    return fake._serve(Request(method, url, query, headers, body))


def data(reply: Reply) -> Any:
    assert reply.status == 200, reply
    return json.loads(reply.body)["data"]


def without_order(value: Any) -> Any:
    """The value with lists of names sorted: the server gives them in any order."""
    if isinstance(value, dict):
        return {key: without_order(one) for key, one in value.items() if key != "digest"}
    if isinstance(value, list):
        return sorted((without_order(one) for one in value), key=json.dumps)
    return value


# -- bodies --------------------------------------------------------------------------------------


def one_vm(release: str, status: str = "running", **config: str) -> Cluster:
    cluster = recorded_cluster(release)
    cluster.vms[113] = Vm(113, "one", "gpu-node-1", status=status, config=config)
    return cluster


@pytest.mark.parametrize(
    ("name", "cluster", "vmid"),
    [
        ("7", one_vm("7.4", hostpci0="0000:52:00", hostpci1="0000:61:00"), 113),
        ("7_stopped", one_vm("7.4", "stopped", hostpci0="0000:52:00"), 113),
        ("8", recorded_cluster("8.4"), 101),
        ("9", recorded_cluster("9.2"), 101),
        ("9_raw", one_vm("9.2", hostpci0="0000:52:00"), 113),
        ("9_mapped_not_live", one_vm("9.2", **MAPPED), 113),
        ("9_ha_local_disk", recorded_cluster("9.2"), 105),
    ],
)
def test_preconditions_have_the_shape_of_their_release(
    name: str, cluster: Cluster, vmid: int
) -> None:
    answer = data(ask(FakeProxmox(cluster), f"{VMS}/{vmid}/migrate"))
    assert without_order(answer) == without_order(sample(f"migrate_preconditions_{name}")["data"])


def test_mappings_and_configurations() -> None:
    fake = FakeProxmox(recorded_cluster())
    mappings = data(ask(fake, "/cluster/mapping/pci"))
    assert mappings == sample("cluster_mapping_pci")["data"]
    for vmid, name in ((101, "vgpu_mapped"), (102, "raw_passthrough")):
        config = data(ask(fake, f"{VMS}/{vmid}/config"))
        assert without_order(config) == without_order(sample(f"qemu_config_{name}")["data"])


def test_resources_say_of_a_vm_what_the_recorded_ones_do() -> None:
    rows = {row["id"]: row for row in data(ask(FakeProxmox(), "/cluster/resources"))}
    recorded = {row["id"]: row for row in sample("cluster_resources")["data"]}
    shared = [one for one in recorded if one in rows and not one.startswith("storage/")]
    assert {"qemu/101", "qemu/106", "qemu/107", "qemu/119", "node/gpu-node-8"} <= set(shared)
    for one in (one for one in shared if not one.startswith("lxc/")):
        assert rows[one].keys() == recorded[one].keys(), one
    exact = ("status", "name", "tags", "lock", "hastate", "maxmem", "template", "pool", "node")
    for one in shared:
        assert {k: rows[one].get(k) for k in exact} == {k: recorded[one].get(k) for k in exact}


def test_devices_of_a_node() -> None:
    (row, *_) = data(ask(FakeProxmox(), "/nodes/gpu-node-1/hardware/pci"))
    assert row.keys() == sample("node_hardware_pci")["data"][1].keys()


# -- errors --------------------------------------------------------------------------------------

Ask = Callable[[FakeProxmox], Reply]


def migrate(vmid: int = 104, node: str = "gpu-node-1", **form: str) -> Ask:
    wanted = {"target": "gpu-node-2"} | form
    return lambda fake: ask(fake, f"/nodes/{node}/qemu/{vmid}/migrate", "POST", **wanted)


def without_quorum(fake: FakeProxmox) -> Reply:
    fake.cluster.quorate = False
    return migrate()(fake)


def replicated(fake: FakeProxmox) -> Reply:
    fake.cluster.vms[104].replicated_to = ["gpu-node-3"]
    return migrate(target="gpu-node-5", online="1")(fake)


def locked_by_a_migration(fake: FakeProxmox) -> Reply:
    fake.cluster.vms[104].lock = "migrate"
    return ask(fake, f"{VMS}/104/migrate")


def without_right(fake: FakeProxmox) -> Reply:
    fake.rights = {"/": {"VM.Audit"}}
    return ask(fake, f"{VMS}/104/migrate")


def on_an_old_release(fake: FakeProxmox) -> Reply:
    fake.cluster.release = "8.4"
    return migrate(with_conntrack_state="1")(fake)


UNKNOWN_TASK = "UPID:gpu-node-1:00000001:00000001:00000001:qmigrate:104:root@pam:"

ERRORS: dict[str, Ask] = {
    "400_bool": migrate(online="True"),
    "400_missing_target": lambda fake: ask(fake, f"{VMS}/104/migrate", "POST"),
    "400_no_such_task": lambda f: ask(f, f"/nodes/gpu-node-1/tasks/{UNKNOWN_TASK}/status"),
    "400_root_only": migrate(force="1"),
    "400_target_local": migrate(target="gpu-node-1"),
    "400_unknown_param": on_an_old_release,
    "401_bad_token": lambda fake: ask(fake, "/version", secret="other"),
    "401_no_ticket": lambda fake: ask(fake, "/version", secret=None),
    "403_no_vm_migrate": without_right,
    "500_locked": migrate(106),
    "500_locked_migrate": locked_by_a_migration,
    "500_no_quorum": without_quorum,
    "500_not_online": migrate(),
    "500_replicated": replicated,
    "500_storage_missing": migrate(target="gpu-node-3", online="1", targetstorage="local-fast"),
    "500_unknown_node_in_path": lambda fake: ask(fake, "/nodes/nope/status"),
    "500_unknown_target": migrate(target="nope"),
    "500_wrong_node": migrate(104, node="gpu-node-2", target="gpu-node-1"),
    "501_not_implemented": lambda fake: ask(fake, "/no/such"),
    "595_no_route": lambda fake: ask(fake, "/nodes/gpu-node-8/status"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refusals_are_word_for_word(name: str) -> None:
    expected = sample(f"errors_{name}")
    reply = ERRORS[name](FakeProxmox(recorded_cluster()))
    body = json.loads(reply.body) if reply.body else None
    assert (reply.status, reply.reason, body) == (
        expected["http_status"],
        expected["reason"],
        expected["body"],
    )


@pytest.mark.parametrize("name", ["500_locked", "400_missing_target"])
def test_before_8_4_the_text_is_in_the_reason_alone(name: str) -> None:
    reply = ERRORS[name](FakeProxmox(recorded_cluster("7.4")))
    assert reply.reason == sample(f"errors_{name}")["reason"]
    assert "message" not in json.loads(reply.body)


# -- tasks ---------------------------------------------------------------------------------------


def shape(lines: list[str]) -> list[str]:
    """Log lines with figures and stamps out, progress lines once, and what 9.x alone says out."""
    plain = [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line) for line in lines]
    kept = [line for line in plain if not line.startswith("conntrack state")]
    figures = [re.sub(r"\d+(\.\d+)?", "#", line) for line in kept]
    return list(
        dict.fromkeys(line.partition(" (+ ")[0].partition(", VM dirt")[0] for line in figures)
    )


def log_of(fake: FakeProxmox, reply: Reply) -> list[str]:
    upid = data(reply)
    fake.finish(upid)
    rows = data(ask(fake, f"/nodes/{parse_upid(upid).node}/tasks/{upid}/log", limit="0"))
    return [row["t"] for row in rows]


def recorded_log(name: str) -> list[str]:
    return [row["t"] for row in sample(f"task_log_{name}")["data"]]


def test_the_log_of_a_good_migration() -> None:
    fake = FakeProxmox(recorded_cluster())
    lines = log_of(fake, migrate(online="1")(fake))
    assert shape(lines) == shape(recorded_log("success"))
    progress = [line[20:] for line in lines if "migration active" in line]
    assert progress == [line[20:] for line in recorded_log("success") if "on active" in line]


@pytest.mark.parametrize(
    ("name", "vmid", "form"),
    [
        ("failed_passthrough", 102, {}),
        ("failed_mapped_not_live", 103, {"target": "gpu-node-5"}),
        ("failed_local_disks", 105, {}),
        ("failed_target_offline", 104, {"target": "gpu-node-8"}),
    ],
)
def test_what_is_accepted_and_fails_in_the_log_alone(
    name: str, vmid: int, form: dict[str, str]
) -> None:
    fake = FakeProxmox(recorded_cluster())
    fake.cluster.vms[105].ha_state = None
    fake.cluster.vms[102].config.pop("hostpci1")
    lines = log_of(fake, migrate(vmid, online="1", **form)(fake))
    assert shape(lines) == shape(recorded_log(name))
    task = fake.only_task()
    assert without_figures(task.row()) == without_figures(sample("task_status_aborted")["data"])
    assert fake.cluster.vms[vmid].node == "gpu-node-1"
    assert fake.cluster.vms[vmid].lock is None


def test_the_log_of_a_migration_that_breaks() -> None:
    fake = FakeProxmox(recorded_cluster())
    fake.cluster.vms[104].migration = "breaks"
    lines = log_of(fake, migrate(online="1")(fake))
    assert shape(lines) == shape(recorded_log("failed"))
    assert fake.only_task().exitstatus == sample("task_status_problems")["data"]["exitstatus"]


def test_the_log_of_a_migration_that_is_stopped() -> None:
    fake = FakeProxmox(recorded_cluster())
    upid = data(migrate(online="1")(fake))
    fake.advance(upid, 8)
    assert ask(fake, f"/nodes/gpu-node-1/tasks/{upid}", "DELETE").status == 200
    rows = data(ask(fake, f"/nodes/gpu-node-1/tasks/{upid}/log", limit="0"))
    assert shape([row["t"] for row in rows]) == shape(recorded_log("stopped"))


def test_a_request_to_the_ha_stack() -> None:
    fake = FakeProxmox(recorded_cluster())
    lines = log_of(fake, migrate(108, node="gpu-node-2", target="gpu-node-3", online="1")(fake))
    assert lines == recorded_log("hamigrate")
    assert fake.cluster.vms[108].node == "gpu-node-2"
    (upid,) = fake.ha_round()
    fake.finish(upid)
    assert fake.cluster.tasks[upid].lines[0].endswith("task started by HA resource agent")
    assert fake.cluster.vms[108].node == "gpu-node-3"


def without_figures(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in ("upid", "pid", "pstart", "starttime", "id")}


@pytest.mark.parametrize(
    ("name", "migration"),
    [
        ("ok", "succeeds"),
        ("warnings", "warns"),
        ("problems", "cleanup-fails"),
        ("killed", "is-killed"),
    ],
)
def test_ends_of_tasks(name: str, migration: str) -> None:
    fake = FakeProxmox(recorded_cluster())
    fake.cluster.vms[104].migration = migration
    upid = data(migrate(online="1")(fake))
    running = data(ask(fake, f"/nodes/gpu-node-1/tasks/{upid}/status"))
    assert without_figures(running) == without_figures(sample("task_status_running")["data"])
    fake.finish(upid)
    ended = data(ask(fake, f"/nodes/gpu-node-1/tasks/{upid}/status"))
    assert without_figures(ended) == without_figures(sample(f"task_status_{name}")["data"])


def test_a_upid_is_one() -> None:
    upid = parse_upid(data(migrate(online="1")(FakeProxmox(recorded_cluster()))))
    recorded = parse_upid(sample("migrate_post")["data"])
    assert (upid.node, upid.type, upid.id, upid.user) == (
        *(recorded.node, recorded.type, recorded.id, recorded.user),
    )


# -- what every cluster answers, a real one too --------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def tls(authority: CertificateAuthority) -> ServerTls:
    pair = authority.issue("pve")
    return ServerTls(pair.cert, pair.key)


@pytest.fixture(params=[*RELEASES, "real"])
def client(
    request: pytest.FixtureRequest, authority: CertificateAuthority, tls: ServerTls
) -> Iterator[ProxmoxClient]:
    if request.param == "real":
        with _real_client() as found:
            yield found
        return
    fake = FakeProxmox(recorded_cluster(request.param), tls=tls)
    with fake, client_of(fake, authority) as found:
        yield found


def _real_client() -> ProxmoxClient:
    env = {
        name: os.environ.get(f"GPUCTL_TEST_PVE_{name}")
        for name in (*("URL", "TOKEN_ID", "TOKEN_FILE", "CA_FILE", "FINGERPRINT"),)
    }
    if not env["URL"] or not env["TOKEN_FILE"]:
        pytest.skip("no GPUCTL_TEST_PVE_URL and GPUCTL_TEST_PVE_TOKEN_FILE")
    settings = ProxmoxSettings(
        endpoints=tuple(env["URL"].split(",")),
        token_id=env["TOKEN_ID"],
        token_file=env["TOKEN_FILE"],
        ca_file=env["CA_FILE"],
        fingerprint=env["FINGERPRINT"],
    )
    return ProxmoxClient(settings, environ=os.environ)


def test_the_cluster_can_be_read(client: ProxmoxClient) -> None:
    assert client.version().number >= (7, 0)
    status = client.cluster_status()
    nodes = {row.node: row.status for row in client.nodes()}
    assert set(nodes) <= set(status.online) or status.name is None
    online = next(name for name, state in nodes.items() if state == "online")
    assert (client.node_status(online).memory.total or 0) > 0
    assert client.storages(online)
    assert client.permissions()


def test_each_vm_has_a_configuration_and_a_state_where_it_is_said_to_be(
    client: ProxmoxClient,
) -> None:
    rows = [row for row in client.resources("vm") if row.type == "qemu" and row.name]
    assert rows, "no VM is visible"
    for row in rows[:5]:
        assert row.node is not None
        assert row.vmid is not None
        assert client.vm_config(row.node, row.vmid).get("name", row.name) == row.name
        assert client.vm_status(row.node, row.vmid).vmid == row.vmid
        assert all(one.name != "current" for one in client.vm_snapshots(row.node, row.vmid))


def test_preconditions_are_understood_as_the_release_gives_them(client: ProxmoxClient) -> None:
    row = next(
        row
        for row in client.resources("vm")
        if row.type == "qemu" and row.name and not row.lock and not row.template
    )
    assert row.node is not None
    assert row.vmid is not None
    found = client.migrate_preconditions(row.node, row.vmid)
    assert isinstance(found, Preconditions)
    assert found.running == (row.status == "running")
    if client.version().number >= (8, 4):
        assert found.not_allowed_nodes is not None
        assert found.mapped is not None


def test_mappings_exist_from_8_0_on(client: ProxmoxClient) -> None:
    assert (client.pci_mappings() is None) == (client.version().number < (8, 0))


def test_what_is_not_there_is_said_by_family(client: ProxmoxClient) -> None:
    node = next(row.node for row in client.nodes() if row.status == "online")
    assert refused(lambda: client.vm_config(node, 999_999_998)).kind in (
        *(Trouble.NOT_HERE, Trouble.DENIED),
    )
    gone = parse_upid(f"UPID:{node}:00000001:00000001:00000001:qmigrate:104:root@pam:")
    assert refused(lambda: client.task_status(gone)).kind in (
        *(Trouble.NO_SUCH_TASK, Trouble.DENIED),
    )
