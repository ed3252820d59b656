"""Reading a Proxmox VE cluster: VMs, devices, mappings, and what is missing."""

from __future__ import annotations

import pytest

from gpuctl.clients.proxmox_config import parse_pci, properties
from gpuctl.errors import BackendError
from gpuctl.inventory.proxmox import ProxmoxInventory
from gpuctl.sim.world import World
from tests.clients.proxmox_clients import OpenCluster
from tests.fakes.http_server import Reply
from tests.fakes.proxmox_world import cluster_of


@pytest.mark.parametrize("release", ["7.4", "8.4", "9.2"])
def test_the_recorded_cluster(open_pve: OpenCluster, release: str) -> None:
    _, client = open_pve(release)
    view = ProxmoxInventory(client).read()
    vms = {vm.vmid: vm for vm in view.vms}
    assert sorted(vms) == [101, 102, 103, 104, 105, 106, 107, 108, 110, 112, 119]
    vgpu, raw = vms[101], vms[102]
    assert (vgpu.name, vgpu.node, vgpu.status) == ("train-vgpu-a", "gpu-node-1", "running")
    assert (vgpu.tags, vgpu.ram_mib, vgpu.cpu_type) == (("gpu", "vgpu"), 65536, "host")
    assert vgpu.smbios_uuid == "5f1d0c2e-6c59-4d0a-8d3b-000000000101"
    (device,) = vgpu.devices
    assert (device.mapping, device.mdev, device.is_pcie) == ("a100-vgpu", "nvidia-474", True)
    assert [[str(a) for a in one.addresses] for one in raw.devices] == [
        ["0000:52:00"],
        ["0000:61:00.0", "0000:61:00.1"],
    ]
    assert {drive.storage: drive.is_shared for drive in vms[105].drives} == {
        "shared-ceph": True,
        "local-fast": False,
        "local": False,
    }
    assert vms[106].lock == "backup"
    assert vms[107].is_template
    assert vms[108].ha_state == "started"
    assert view.quorate is True
    assert not view.nodes["gpu-node-8"].is_online
    assert (view.nodes["gpu-node-1"].free_mib or 0) == (1024 - 612) * 1024


def test_a_vm_of_a_node_that_is_down_is_unknown_and_said_so(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    view = ProxmoxInventory(client).read()
    (lost,) = view.found("119")
    assert lost.status == "unknown"
    assert not lost.is_running
    assert any("VM 119 (its node gpu-node-8 is offline)" in text for text in view.warnings)
    assert not any("gpu-node-8" in path for path in fake.sent("GET"))


def test_mappings_and_what_they_allow(open_pve: OpenCluster) -> None:
    _, client = open_pve("8.4")
    view = ProxmoxInventory(client).read()
    vms = {vm.vmid: vm for vm in view.vms}
    assert view.mappings is not None
    assert len(view.mappings["a100-vgpu"].on("gpu-node-2")) == 2
    assert view.mappings["h100-full"].on("gpu-node-2") == ()
    found = {vmid: view.live_migratable(vms[vmid]) for vmid in (101, 102, 103, 104, 112, 119)}
    assert found == {101: True, 102: False, 103: False, 104: True, 112: True, 119: None}


def test_before_8_4_no_device_moves_live(open_pve: OpenCluster) -> None:
    _, client = open_pve("8.2")
    view = ProxmoxInventory(client).read()
    assert view.live_migratable(view.found("101")[0]) is False


def test_details_cost_more_calls_and_tell_processors_and_snapshots(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[104].snapshots = ["before"]
    plain = ProxmoxInventory(client).read()
    assert plain.found("104")[0].snapshots is None
    view = ProxmoxInventory(client).read(details=True)
    assert view.found("104")[0].snapshots == ("before",)
    assert "EPYC" in (view.nodes["gpu-node-1"].cpu_model or "")
    assert view.nodes["gpu-node-8"].cpu_model is None


def test_vms_by_id_and_by_name(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[108].name = "web-plain"
    view = ProxmoxInventory(client).read()
    assert [vm.vmid for vm in view.found("104")] == [104]
    assert [vm.vmid for vm in view.found("vm/104")] == [104]
    assert [vm.vmid for vm in view.found("train-vgpu-a")] == [101]
    assert [vm.vmid for vm in view.found("web-plain")] == [104, 108]
    assert view.found("201") == ()  # a container


def test_no_vm_at_all_is_a_matter_of_rights(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {"/": {"Sys.Audit"}}
    view = ProxmoxInventory(client).read()
    assert view.vms == ()
    (text,) = view.warnings
    assert "VM.Audit" in text


def test_mappings_that_the_token_may_not_see(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.rights = {"/": {"Sys.Audit", "VM.Audit"}}
    view = ProxmoxInventory(client).read()
    assert view.live_migratable(view.found("101")[0]) is None
    assert any("a100-vgpu, h100-full" in t and "Mapping.Audit" in t for t in view.warnings)


def test_a_vm_that_moves_while_it_is_read_does_not_spoil_the_rest(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    reason = "Configuration file 'nodes/gpu-node-1/qemu-server/104.conf' does not exist"
    fake.fail("GET", "/104/config", Reply(500, b'{"data":null}', reason=reason))
    view = ProxmoxInventory(client).read()
    assert view.found("104")[0].problem == "it has just moved"
    assert view.found("101")[0].problem is None


def test_a_token_that_expires_in_between_is_an_error(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/104/config", Reply(401, reason="Authentication failed!"))
    with pytest.raises(BackendError, match="does not accept the token"):
        ProxmoxInventory(client).read()


def test_the_simulated_cluster(open_pve: OpenCluster) -> None:
    world = World.load()
    _, client = open_pve(cluster_of(world))
    view = ProxmoxInventory(client).read()
    wanted = {one.id: one for one in world.workloads() if one.kind == "vm"}
    assert {vm.id for vm in view.vms} == set(wanted)
    for vm in view.vms:
        assert view.live_migratable(vm) == wanted[vm.id].live_migratable
        assert vm.ram_mib == wanted[vm.id].ram_mib
        assert vm.node == wanted[vm.id].placements[0].node


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0000:41:00.0", "0000:41:00.0"),
        ("00000000:41:00.0", "0000:41:00.0"),
        ("41:00", "0000:41:00"),
        ("00000001:C1:1F.7", "0001:c1:1f.7"),
        ("nonsense", "None"),
        ("41:00.9", "None"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert str(parse_pci(text)) == shown


def test_property_strings() -> None:
    assert properties("0000:41:00,pcie=1, x-vga=0") == (
        "0000:41:00",
        {"pcie": "1", "x-vga": "0"},
    )
    assert properties("") == (None, {})
