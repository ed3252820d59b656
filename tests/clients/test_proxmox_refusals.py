"""What the Proxmox VE client makes of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from gpuctl.clients.proxmox import MigrateOptions, Trouble
from gpuctl.clock import Deadline, FixedClock
from gpuctl.errors import ConfigError, TimeoutReached
from tests.clients.proxmox_clients import OpenCluster, client_of, refused, says
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import Reply
from tests.fakes.proxmox import TOKEN_ID, FakeProxmox, gateway_without_reasons

LIVE = MigrateOptions(online=True)
ONE, TWO = "gpu-node-1", "gpu-node-2"
LOGIN_PAGE = Reply(body=b"<!doctype html><title>Log in</title>", content_type="text/html")


def locked(fake: FakeProxmox) -> None:
    fake.cluster.vms[104].lock = "backup"


def no_quorum(fake: FakeProxmox) -> None:
    fake.cluster.quorate = False


def replicated(fake: FakeProxmox) -> None:
    fake.cluster.vms[104].replicated_to = ["gpu-node-3"]


@pytest.mark.parametrize("release", ["7.4", "8.4", "9.2"])
@pytest.mark.parametrize(
    ("prepare", "vmid", "target", "options", "kind", "words"),
    [
        (locked, 104, TWO, LIVE, Trouble.LOCKED, ["VM is locked (backup)", "qm unlock"]),
        (no_quorum, 104, TWO, LIVE, Trouble.NO_QUORUM, ["no quorum", "pvecm status"]),
        (None, 104, TWO, MigrateOptions(), Trouble.NOT_ONLINE, ["--online"]),
        (replicated, 104, TWO, LIVE, Trouble.REPLICATED, ["replicated"]),
        (None, 104, "nope", LIVE, Trouble.UNKNOWN_TARGET, ["no such cluster node 'nope'"]),
        (None, 104, ONE, LIVE, Trouble.PARAMETERS, ["target: target is local node."]),
        (None, 108, TWO, LIVE, Trouble.PARAMETERS, []),
        (None, 999, TWO, LIVE, Trouble.NOT_HERE, ["no such VM"]),
        (
            None,
            *(104, "gpu-node-3", MigrateOptions(online=True, target_storage="local-fast")),
            *(Trouble.STORAGE_MISSING, ["local-fast", "--target-storage"]),
        ),
    ],
)
def test_refusals_by_family(
    open_pve: OpenCluster,
    release: str,
    prepare: Callable[[FakeProxmox], None] | None,
    vmid: int,
    target: str,
    options: MigrateOptions,
    kind: Trouble,
    words: list[str],
) -> None:
    fake, client = open_pve(release)
    if prepare is not None:
        prepare(fake)
    node = TWO if vmid == 108 else ONE
    problem = refused(lambda: client.start_migration(node, vmid, target, options))
    assert problem.kind is kind
    assert [word for word in words if word not in says(problem)] == []
    assert not problem.may_have_run
    assert fake.cluster.tasks == {}


def test_the_lock_is_told_apart(open_pve: OpenCluster) -> None:
    _, client = open_pve()
    assert refused(lambda: client.migrate_preconditions(ONE, 106)).lock == "backup"


def test_a_gateway_that_drops_reason_phrases(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    body = b'{"data":null,"message":"VM is locked (backup)\\n"}'
    reply = gateway_without_reasons(Reply(500, body, content_type="application/json"))
    fake.fail("GET", "/migrate", reply)
    assert refused(lambda: client.migrate_preconditions(ONE, 104)).lock == "backup"


def test_a_right_that_is_missing_is_named_with_path_and_command(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {"/": {"VM.Audit"}}
    problem = refused(lambda: client.migrate_preconditions(ONE, 104))
    assert problem.kind is Trouble.DENIED
    assert problem.missing == ("/vms/104", "VM.Migrate")
    assert "it lacks VM.Migrate on /vms/104" in says(problem)
    assert f"pveum acl modify /vms/104 --tokens '{TOKEN_ID}'" in says(problem)


def test_missing_rights_are_listed(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {"/vms": {"VM.Audit", "VM.Migrate"}, "/nodes/gpu-node-1": {"Sys.Audit"}}
    wanted = {"/vms/104": ("VM.Audit", "VM.Migrate"), "/nodes/gpu-node-2": ("Sys.Audit",)}
    assert client.missing_rights(wanted) == (("/nodes/gpu-node-2", "Sys.Audit"),)


def test_missing_rights_give_empty_lists(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {}
    assert [row for row in client.resources("vm") if row.type == "qemu"] == []
    assert client.pci_mappings() == ()


def test_all_parameters_that_are_wrong_are_told(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    body = b'{"data":null,"errors":{"bwlimit":"value must be 0 or more","target":"bad"}}'
    fake.fail("POST", "/migrate", Reply(400, body, reason="Parameter verification failed."))
    problem = refused(lambda: client.start_migration(ONE, 104, TWO, LIVE))
    assert dict(problem.fields) == {"bwlimit": "value must be 0 or more", "target": "bad"}
    assert problem.details == ("bwlimit: value must be 0 or more", "target: bad")


@pytest.mark.parametrize(
    ("node", "kind", "words"),
    [
        ("gpu-node-8", Trouble.NODE_UNREACHABLE, ["No route to host", "pveproxy"]),
        ("nope", Trouble.UNKNOWN_NODE, ["hostname lookup 'nope' failed"]),
    ],
)
def test_nodes_that_do_not_answer(
    open_pve: OpenCluster, node: str, kind: Trouble, words: list[str]
) -> None:
    _, client = open_pve()
    problem = refused(lambda: client.node_status(node))
    assert problem.kind is kind
    assert [word for word in words if word not in says(problem)] == []


def test_an_answer_of_another_shape(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/version", Reply(body=b'{"data": [1]}', content_type="application/json"))
    assert "shape that gpuctl does not know" in says(refused(client.version))


@pytest.mark.parametrize("reply", [LOGIN_PAGE, Reply(404, b"not found"), Reply(body=b'{"a": 1}')])
def test_another_service_at_that_address(open_pve: OpenCluster, reply: Reply) -> None:
    fake, client = open_pve(count=1)
    fake.fail("GET", "/version", reply, times=9)
    problem = refused(client.version)
    assert problem.kind is Trouble.NOT_PROXMOX
    assert "proxmox.endpoints" in says(problem)
    assert len(fake.requests) == 1


def test_names_that_would_ask_for_something_else(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    for name in ("", "..", "."):
        with pytest.raises(ConfigError):
            client.node_status(name)
    assert fake.requests == []
    assert refused(lambda: client.node_status("../access")).kind is Trouble.UNKNOWN_NODE


def test_the_deadline_of_the_command(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    clock = FixedClock(datetime(2025, 3, 1, tzinfo=UTC))
    with (
        client_of(fake, authority, deadline=Deadline.after(0, clock)) as client,
        pytest.raises(TimeoutReached, match="ran out"),
    ):
        client.version()
