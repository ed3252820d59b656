"""Views with Proxmox VE beside the metrics: its VMs are in the snapshot, its absence is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuctl.clock import Deadline, FixedClock
from gpuctl.inventory.kubernetes import ClusterInventory
from gpuctl.inventory.observe import Inventory, Surroundings, observe, open_inventories
from gpuctl.metrics.sim_source import SimSource
from gpuctl.metrics.source import Want
from gpuctl.model.policy import Policy
from gpuctl.model.settings import ContextSettings, ProxmoxSettings
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.classes import workload_class
from gpuctl.sim.world import World
from tests.clients.proxmox_clients import OpenCluster
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.proxmox import SECRET, TOKEN_ID, FakeProxmox
from tests.fakes.proxmox_world import cluster_of

CLOCK = FixedClock(datetime(2025, 3, 1, tzinfo=UTC))


def inventories(fake: FakeProxmox, authority: CertificateAuthority, **more: Any) -> Any:
    settings: dict[str, Any] = {
        "endpoints": fake.endpoints,
        "token_id": TOKEN_ID,
        "token_env": "PVE_TOKEN",
        "ca_file": authority.cert,
    }
    around = Surroundings(
        environ={"PVE_TOKEN": SECRET},
        clock=CLOCK,
        deadline=Deadline.after(60, CLOCK),
        request_timeout=timedelta(seconds=20),
        stdin=None,
        wait=lambda _: None,
    )
    return open_inventories(ContextSettings(proxmox=ProxmoxSettings(**settings | more)), around)


def observed(opened: tuple[Inventory, ...]) -> Snapshot:
    """The simulated cluster with its VMs told by Proxmox VE."""
    want = Want.by(Policy())
    try:
        return observe(
            SimSource(World.load()), want, context=None, cluster=None, inventories=opened
        )
    finally:
        for one in opened:
            one.close()


def test_vms_are_workloads_with_all_that_a_plan_needs(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    world = World.load()
    fake, _ = open_pve(cluster_of(world))
    snapshot = observed(inventories(fake, authority))
    assert "proxmox" in snapshot.inventories
    found = {one.id: one for one in snapshot.workloads if one.kind == "vm"}
    for one in world.workloads():
        if one.kind == "vm":
            told = found[one.id]
            assert told.tags == one.tags
            assert [(place.node, place.gpu) for place in told.placements] == [
                (place.node, place.gpu) for place in one.placements
            ]
            assert told.ram_mib == one.ram_mib
            assert told.live_migratable == one.live_migratable
            assert workload_class(told, Policy()) == one.workload_class


def test_an_api_that_is_down_is_a_warning_with_the_reason(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    opened = inventories(fake, authority)
    fake.endpoint_down(0)
    fake.endpoint_down(1)
    snapshot = observed(opened)
    assert snapshot.gpus
    assert "proxmox" not in snapshot.inventories
    (text,) = snapshot.warnings[-1:]
    assert "not from proxmox" in text
    assert "connection refused" in text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"token_env": None}, "proxmox has no token"),
        ({"token_env": "NOT_SET"}, "NOT_SET is not set"),
        ({"token_id": "gpuctl@pve!gone"}, "does not accept the token gpuctl@pve!gone"),
    ],
)
def test_settings_that_can_not_work_do_not_spoil_a_view(
    open_pve: OpenCluster, authority: CertificateAuthority, settings: dict[str, Any], words: str
) -> None:
    fake, _ = open_pve()
    snapshot = observed(inventories(fake, authority, **settings))
    assert any(words in text for text in snapshot.warnings)


def test_without_endpoints_there_is_no_inventory(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    assert inventories(fake, authority, endpoints=()) == ()


def test_both_inventories_together_tell_which_vm_is_a_node(
    open_pve: OpenCluster, authority: CertificateAuthority
) -> None:
    fake, _ = open_pve()
    (inventory,) = inventories(fake, authority, kubernetes_nodes={"101": "worker-7"})
    view = inventory.read()
    assert view.kubernetes is None
    cluster = ClusterInventory(server="https://k8s", nodes={}, pods={})
    assert view.beside([view, cluster]).kubernetes == ()
    assert view.configured == {"101": "worker-7"}
    inventory.close()
