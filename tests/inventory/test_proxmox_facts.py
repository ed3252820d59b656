"""From a (fake) Proxmox VE to the checklist: what is read before a move, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuctl.clients.proxmox import MigrateOptions, ProxmoxClient
from gpuctl.errors import BackendError
from gpuctl.inventory.proxmox import ProxmoxInventory
from gpuctl.inventory.proxmox_facts import balances_itself, migration_facts
from gpuctl.inventory.proxmox_view import KubernetesNode
from gpuctl.model.migration import MigrationFacts, Wish
from gpuctl.policy.migration.checks import checklist
from tests.clients.proxmox_clients import OpenCluster
from tests.fakes.http_server import Reply
from tests.fakes.proxmox import FakeProxmox

RELEASES = ("7.4", "8.2", "8.4", "9.2")
ONE, TWO = "gpu-node-1", "gpu-node-2"
SOMEONE = (KubernetesNode("elsewhere", "00000000-0000-0000-0000-000000000001"),)


def read(
    client: ProxmoxClient,
    asked: str,
    target: str,
    kubernetes: tuple[KubernetesNode, ...] | None = SOMEONE,
    **wish: Any,
) -> MigrationFacts:
    view = replace(ProxmoxInventory(client).read(), kubernetes=kubernetes)
    return migration_facts(client, view, asked, Wish(target=target, **wish))


def said(facts: MigrationFacts, *outcomes: str) -> dict[str, str]:
    """Checks of these outcomes: name -> reason."""
    return {c.name: c.reason for c in checklist(facts) if c.outcome in outcomes}


@pytest.mark.parametrize("release", ["8.4", "9.2"])
def test_a_plain_vm_may_go(open_pve: OpenCluster, release: str) -> None:
    fake, client = open_pve(release)
    facts = read(client, "web-plain", TWO)
    assert said(facts, "fail", "warn", "unknown") == {}
    assert facts.vm is not None
    assert (facts.vm.vmid, facts.vm.node, facts.is_live) == (104, ONE, True)
    assert fake.sent("POST") == []


@pytest.mark.parametrize("release", ["7.4", "8.2"])
def test_what_an_old_release_does_not_tell_is_unknown(open_pve: OpenCluster, release: str) -> None:
    _, client = open_pve(release)
    facts = read(client, "104", TWO)
    assert list(said(facts, "warn")) == ["preconditions"]
    assert said(facts, "fail", "unknown") == {}


@pytest.mark.parametrize("release", RELEASES)
def test_raw_passthrough_is_seen_on_every_release(open_pve: OpenCluster, release: str) -> None:
    _, client = open_pve(release)
    refused = said(read(client, "102", TWO), "fail")
    assert "0000:52:00" in refused["passthrough"]
    assert "hostpci0, hostpci1" in refused["local-resources"]


@pytest.mark.parametrize(
    ("release", "expected"), [("8.2", "fail"), ("8.4", "warn"), ("9.2", "warn")]
)
def test_a_mapped_vgpu(open_pve: OpenCluster, release: str, expected: str) -> None:
    _, client = open_pve(release)
    facts = read(client, "101", TWO)
    outcomes = {check.name: check.outcome for check in checklist(facts)}
    assert outcomes["passthrough"] == expected
    assert outcomes["mappings"] == "ok"
    assert facts.target is not None
    assert facts.target.free_devices == {"a100-vgpu": 4}


def test_a_mapping_that_the_target_lacks(open_pve: OpenCluster) -> None:
    _, client = open_pve()
    refused = said(read(client, "101", "gpu-node-5"), "fail")
    assert "mapped device of hostpci0" in refused["preconditions"]
    assert "a100-vgpu" in refused["mappings"]


def test_a_mapping_that_does_not_move_live_but_stopped(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    assert "h100-full" in said(read(client, "103", "gpu-node-5"), "fail")["passthrough"]
    fake.cluster.vms[103].status = "stopped"
    facts = read(client, "103", "gpu-node-5")
    assert said(facts, "fail") == {}
    assert facts.target is not None
    assert facts.target.free_devices == {"h100-full": 1}


@pytest.mark.parametrize("claim", ["mapping=h100-full", "0000:52:00", "0000:52:00.0,pcie=1"])
def test_a_whole_card_that_another_vm_holds_is_not_free(open_pve: OpenCluster, claim: str) -> None:
    fake, client = open_pve()
    fake.cluster.vms[103].status = "stopped"
    other = fake.cluster.vms[104]
    other.node, other.config = "gpu-node-5", {"hostpci0": claim}
    warned = said(read(client, "103", "gpu-node-5"), "warn")
    assert "no device of h100-full is free" in warned["mappings"]
    other.status = "stopped"
    assert "mappings" in said(read(client, "103", "gpu-node-5"), "ok")


def test_a_vm_with_local_disks_under_ha(open_pve: OpenCluster) -> None:
    _, client = open_pve()
    facts = read(client, "105", "gpu-node-3")
    refused, warned = said(facts, "fail"), said(facts, "warn")
    assert "lacks the storage local-fast" in refused["preconditions"]
    assert "vm:111 (resource-affinity)" in refused["preconditions"]
    assert "debian-13.iso" in refused["local-disks"]
    assert "vm:112 will move with it" in warned["ha"]


def test_a_lock_hides_the_preconditions_and_is_told(open_pve: OpenCluster) -> None:
    _, client = open_pve()
    facts = read(client, "106", TWO)
    assert "backup" in said(facts, "fail")["lock"]
    assert "VM is locked (backup)" in said(facts, "unknown")["preconditions"]


def no_quorum(fake: FakeProxmox) -> None:
    fake.cluster.quorate = False


def full(fake: FakeProxmox) -> None:
    node = fake.cluster.nodes[TWO]
    node.used_bytes = node.memory_bytes - (1 << 30)


def another_processor(fake: FakeProxmox) -> None:
    fake.cluster.nodes[TWO].cpu_model = "Intel(R) Xeon(R) Gold 6430"


def without_migrate(fake: FakeProxmox) -> None:
    fake.rights = {"/": {"VM.Audit", "Sys.Audit", "Mapping.Audit"}}


def replicated(fake: FakeProxmox) -> None:
    fake.cluster.vms[104].replicated_to = ["gpu-node-3"]


def template(fake: FakeProxmox) -> None:
    fake.cluster.vms[104].template = True


@pytest.mark.parametrize(
    ("prepare", "name", "outcome", "words"),
    [
        (no_quorum, "quorum", "fail", "no quorum"),
        (full, "memory", "fail", "1.0 GiB free"),
        (another_processor, "cpu", "warn", "Xeon"),
        (without_migrate, "rights", "fail", "VM.Migrate on /vms/104"),
        (without_migrate, "preconditions", "unknown", "lacks VM.Migrate on /vms/104"),
        (replicated, "replication", "fail", "gpu-node-3"),
        (template, "vm", "fail", "template"),
    ],
)
def test_states_of_the_cluster(
    open_pve: OpenCluster,
    prepare: Callable[[FakeProxmox], None],
    name: str,
    outcome: str,
    words: str,
) -> None:
    fake, client = open_pve()
    prepare(fake)
    assert words in said(read(client, "104", TWO), outcome)[name]


@pytest.mark.parametrize(
    ("target", "words"),
    [("gpu-node-8", "offline"), (ONE, "already"), ("nope", "no node nope")],
)
def test_targets(open_pve: OpenCluster, target: str, words: str) -> None:
    _, client = open_pve()
    assert words in said(read(client, "104", target), "fail")["target"]


def test_migrations_of_others_on_either_node(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[110].node = "gpu-node-3"
    upid = client.start_migration("gpu-node-3", 110, TWO, MigrateOptions(online=True))
    fake.advance(upid.text, 4)
    assert said(read(client, "104", TWO), "fail") == {
        "other-migrations": "another migration runs: VM 110 coming on gpu-node-2"
    }
    leaving = said(read(client, "112", "gpu-node-3"), "fail")["other-migrations"]
    assert leaving == "another migration runs: VM 110 coming on gpu-node-2, VM 110 on gpu-node-3"
    assert said(read(client, "104", "gpu-node-4"), "fail") == {}
    fake.finish(upid.text)
    assert said(read(client, "104", TWO), "fail") == {}


def test_a_vm_that_is_a_kubernetes_node(open_pve: OpenCluster) -> None:
    _, client = open_pve()
    uuid = "5f1d0c2e-6c59-4d0a-8d3b-000000000110"
    nodes = (KubernetesNode("k8s-gpu-worker-1", uuid.upper()),)
    facts = read(client, "110", ONE, nodes)
    assert "k8s-gpu-worker-1" in said(facts, "fail")["kubernetes-node"]
    assert said(read(client, "110", ONE, nodes, drained=True), "fail") == {}
    unknown = said(read(client, "110", ONE, None), "unknown")
    assert "not known" in unknown["kubernetes-node"]


def test_names_that_are_not_unique_or_unknown(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[108].name = "web-plain"
    assert "VMs 104, 108" in said(read(client, "web-plain", TWO), "fail")["vm"]
    assert "no VM 999" in said(read(client, "999", TWO), "fail")["vm"]


def test_one_missing_right_does_not_hide_the_other_facts(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    denied = Reply(403, b'{"data":null}', reason="Permission check failed (/, Sys.Audit)")
    fake.fail("GET", "/nodes/gpu-node-2/status$", denied)
    fake.fail("GET", "/replication$", denied)
    facts = read(client, "104", TWO)
    assert list(said(facts, "unknown")) == ["cpu", "replication"]
    assert "Sys.Audit" in facts.unread["replication"]


def test_a_configuration_that_can_not_be_read_is_no_vm_without_devices(
    open_pve: OpenCluster,
) -> None:
    fake, client = open_pve()
    denied = Reply(403, b'{"data":null}', reason="Permission check failed (/vms/102, VM.Audit)")
    fake.fail("GET", "/102/config$", denied)
    facts = read(client, "102", TWO)
    unknown = said(facts, "unknown")
    assert {"passthrough", "mappings", "storages"} <= unknown.keys()
    assert "VM.Audit" in facts.unread["config"]
    assert "hostpci0" in said(facts, "fail")["local-resources"]


def test_an_expired_token_is_not_a_fact_that_is_missing(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/104/migrate", Reply(401, reason="Authentication failed!"))
    with pytest.raises(BackendError, match="does not accept"):
        read(client, "104", TWO)


def test_rights_for_another_storage(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {"/": {"VM.Audit", "VM.Migrate", "Sys.Audit"}}
    facts = read(client, "104", TWO, target_storage="shared-ceph")
    assert facts.missing_rights == (
        ("/vms/104", "VM.Config.Disk"),
        ("/storage/shared-ceph", "Datastore.AllocateSpace"),
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"crs": "ha=static"}, False),
        ({"crs": "ha=dynamic,ha-auto-rebalance=1"}, True),
        ({"crs": {"ha": "dynamic", "ha-auto-rebalance": 1}}, True),
        ({"crs": {"ha": "dynamic", "ha-auto-rebalance": 0}}, False),
    ],
)
def test_balancing_of_its_own(options: dict[str, object], expected: bool) -> None:
    assert balances_itself(options) is expected
