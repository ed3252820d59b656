"""VMs joined to GPUs and Kubernetes nodes, and how sure each join is."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.clients.proxmox_config import hostpci_of, mapped_device
from gpuctl.inventory.proxmox_join import KUBERNETES_NODE, Joined, join, kubernetes_node
from gpuctl.inventory.proxmox_view import (
    DeviceMapping,
    Hypervisor,
    KubernetesNode,
    ProxmoxView,
    Vm,
)
from gpuctl.model.gpu import Gpu, GpuState, Tenant
from gpuctl.model.snapshot import Snapshot, Source
from gpuctl.model.workload import Workload

UUID = "5f1d0c2e-6c59-4d0a-8d3b-000000000101"


def gpu(node: str, index: int, bus: str | None = None, **more: Any) -> Gpu:
    return Gpu(
        node=node,
        gpu=index,
        uuid=f"GPU-{node}-{index}",
        pci_bus_id=bus,
        state=GpuState.OK,
        utilization_pct=50.0,
        memory_used_mib=1.0,
        memory_total_mib=2.0,
        **more,
    )


def snapshot(*gpus: Gpu, **more: Any) -> Snapshot:
    return Snapshot(
        taken_at=datetime(2025, 3, 1, tzinfo=UTC),
        source=Source(kind="prometheus", location="x"),
        gpus=gpus,
        **more,
    )


def vm(vmid: int = 101, node: str = "pve-1", **more: Any) -> Vm:
    devices = {key: more.pop(key) for key in list(more) if key.startswith("hostpci")}
    wanted = {"name": f"vm-{vmid}", "status": "running", "ram_mib": 65536.0} | more
    return Vm(vmid=vmid, node=node, devices=hostpci_of(devices), **wanted)


def mapping(name: str, *rows: tuple[str, str], live: bool = True) -> DeviceMapping:
    found = (mapped_device(f"id=10de:20b5,node={node},path={path}") for node, path in rows)
    return DeviceMapping(
        id=name,
        is_mdev=False,
        live_capable=live,
        devices=tuple(one for one in found if one is not None),
    )


def view(*vms: Vm, mappings: tuple[DeviceMapping, ...] = (), **more: Any) -> ProxmoxView:
    wanted: dict[str, Any] = {
        "server": "https://pve-1:8006",
        "release": (9, 2),
        "cluster": "lab",
        "quorate": True,
        "nodes": {name: Hypervisor(name=name, is_online=True) for name in ("pve-1", "pve-2")},
        "mappings": {one.id: one for one in mappings},
    } | more
    return ProxmoxView(vms=vms, **wanted)


def placed(joined: Joined, vmid: int = 101) -> list[str]:
    """Addresses of the GPUs that a VM's workload is on."""
    (workload,) = (one for one in joined.snapshot.workloads if one.id == f"vm/{vmid}")
    return [f"{place.node}/{place.gpu}" for place in workload.placements]


def sureness(joined: Joined, vmid: int = 101) -> list[tuple[str, str | None]]:
    found = joined.of(vmid)
    assert found is not None
    return [(device.by, device.sureness) for device in found.devices]


# -- by address ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "bus"),
    [
        ("0000:41:00.0,pcie=1", "00000000:41:00.0"),
        ("41:00,pcie=1", "0000:41:00.0"),
        ("host=0000:c1:00", "00000000:C1:00.0"),
        ("0001:41:00", "00000001:41:00.0"),
    ],
)
def test_a_raw_device_is_its_card_however_it_is_written(config: str, bus: str) -> None:
    there = snapshot(gpu("pve-1", 0, bus), gpu("pve-1", 1, "00000000:81:00.0"))
    joined = join(there, view(vm(hostpci0=config)))
    assert placed(joined) == ["pve-1/0"]
    assert sureness(joined) == [("address", "certain")]
    assert joined.snapshot.gpus[0].workloads == ("vm/101",)
    assert joined.snapshot.gpus[1].workloads == ()


def test_another_domain_is_another_card() -> None:
    there = snapshot(gpu("pve-1", 0, "00000001:41:00.0"))
    assert placed(join(there, view(vm(hostpci0="0000:41:00")))) == []


def test_the_same_address_of_another_node_is_not_it() -> None:
    there = snapshot(gpu("pve-2", 0, "00000000:41:00.0"))
    assert placed(join(there, view(vm(hostpci0="0000:41:00")))) == []


def test_domains_of_host_names_do_not_matter() -> None:
    there = snapshot(gpu("PVE-1.example.org", 0, "00000000:41:00.0"))
    assert placed(join(there, view(vm(hostpci0="0000:41:00")))) == ["PVE-1.example.org/0"]


def test_several_devices() -> None:
    there = snapshot(gpu("pve-1", 0, "0000:41:00.0"), gpu("pve-1", 1, "0000:81:00.0"))
    both = view(vm(hostpci0="0000:41:00", hostpci1="0000:81:00"))
    assert placed(join(there, both)) == ["pve-1/0", "pve-1/1"]


def test_a_virtual_function_is_found_by_its_bus() -> None:
    there = snapshot(gpu("pve-1", 0, "00000000:41:00.0"), gpu("pve-1", 1, "00000000:81:00.0"))
    joined = join(there, view(vm(hostpci0="0000:41:01.3,mdev=nvidia-474")))
    assert placed(joined) == ["pve-1/0"]
    assert sureness(joined) == [("mdev", "certain")]


def test_a_stopped_vm_has_no_card() -> None:
    there = snapshot(gpu("pve-1", 0, "0000:41:00.0"))
    joined = join(there, view(vm(hostpci0="0000:41:00", status="stopped")))
    assert placed(joined) == []
    assert joined.snapshot.gpus[0].workloads == ()


# -- by mapping ----------------------------------------------------------------------------------


def test_a_mapping_with_functions_of_one_card_names_it() -> None:
    rows = mapping("vgpu", ("pve-1", "0000:41:00.4"), ("pve-1", "0000:41:00.5"))
    there = snapshot(gpu("pve-1", 0, "0000:41:00.0"), gpu("pve-1", 1, "0000:81:00.0"))
    joined = join(there, view(vm(hostpci0="mapping=vgpu"), mappings=(rows,)))
    assert placed(joined) == ["pve-1/0"]
    assert sureness(joined) == [("mapping", "certain")]


def test_a_mapping_with_several_cards_claims_none() -> None:
    rows = mapping("any", ("pve-1", "0000:41:00.0"), ("pve-1", "0000:81:00.0"))
    there = snapshot(gpu("pve-1", 0, "0000:41:00.0"), gpu("pve-1", 1, "0000:81:00.0"))
    joined = join(there, view(vm(hostpci0="mapping=any"), mappings=(rows,)))
    assert placed(joined) == []
    assert sureness(joined) == [("mapping", "possible")]
    assert any("vm/101 (hostpci0: 2 cards)" in text for text in joined.snapshot.warnings)
    assert all(card.workloads == () for card in joined.snapshot.gpus)


@pytest.mark.parametrize(
    ("config", "live", "release", "expected"),
    [
        ("0000:41:00", True, (9, 2), False),
        ("mapping=vgpu", True, (9, 2), True),
        ("mapping=vgpu", False, (9, 2), False),
        ("mapping=vgpu", True, (8, 3), False),
        ("mapping=hidden", True, (9, 2), None),
    ],
)
def test_whether_a_vm_can_be_migrated_live(
    config: str, live: bool, release: tuple[int, int], expected: bool | None
) -> None:
    rows = mapping("vgpu", ("pve-1", "0000:41:00.4"), live=live)
    joined = join(snapshot(), view(vm(hostpci0=config), mappings=(rows,), release=release))
    (workload,) = joined.snapshot.workloads
    assert workload.live_migratable is expected


# -- inside the guest ----------------------------------------------------------------------------


def test_cards_that_only_the_guest_sees_are_paired_by_port() -> None:
    guest = (gpu("worker-1", 0, "00000000:01:00.0"), gpu("worker-1", 1, "00000000:02:00.0"))
    inner = vm(
        name="worker-1",
        smbios_uuid=UUID,
        hostpci0="0000:41:00,pcie=1",
        hostpci1="0000:81:00,pcie=1",
    )
    nodes = (KubernetesNode("worker-1", UUID),)
    joined = join(snapshot(*guest), view(inner, kubernetes=nodes))
    assert placed(joined) == ["worker-1/0", "worker-1/1"]
    assert sureness(joined) == [("guest", "certain"), ("guest", "certain")]


def test_cards_of_a_guest_known_by_name_are_likely_its() -> None:
    guest = (gpu("worker-1", 0, "00000000:05:00.0"), gpu("worker-1", 1, "00000000:06:00.0"))
    joined = join(snapshot(*guest), view(vm(name="worker-1", hostpci0="41:00", hostpci1="81:00")))
    assert placed(joined) == ["worker-1/0", "worker-1/1"]
    assert sureness(joined) == [("guest", "likely")]


def test_a_kubernetes_node_is_marked_and_no_tenant_beside_its_pods() -> None:
    pod = Tenant(workload="prod/chat-0")
    guest = gpu("worker-1", 0, "00000000:01:00.0", tenants=(pod,))
    inner = vm(name="worker-1", smbios_uuid=UUID, hostpci0="0000:41:00,pcie=1")
    joined = join(snapshot(guest), view(inner, kubernetes=(KubernetesNode("worker-1", UUID),)))
    (workload,) = joined.snapshot.workloads
    assert workload.labels == {KUBERNETES_NODE: "worker-1"}
    assert joined.snapshot.gpus[0].tenants == (pod,)


# -- VM and Kubernetes node ----------------------------------------------------------------------

SWAPPED = str(uuid.UUID(bytes_le=uuid.UUID(UUID).bytes))
OTHER = str(uuid.UUID(int=7))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (KubernetesNode("k", UUID), ("smbios", "certain")),
        (KubernetesNode("k", UUID.upper()), ("smbios", "certain")),
        (KubernetesNode("k", SWAPPED), ("smbios", "likely")),
        (KubernetesNode("k", "", "proxmox://lab/101"), ("provider-id", "certain")),
        (KubernetesNode("k", "", "proxmox://other/101"), ("provider-id", "likely")),
        (KubernetesNode("k", "", f"proxmox://{UUID}"), ("provider-id", "certain")),
        (KubernetesNode("k", OTHER, "proxmox://lab/101"), None),
        (KubernetesNode("k", "", "aws:///101"), None),
        (KubernetesNode("vm-101"), ("name", "likely")),
        (KubernetesNode("VM-101.example.org"), ("name", "likely")),
        (KubernetesNode("vm-101", OTHER), None),
        (KubernetesNode("elsewhere"), None),
    ],
)
def test_what_speaks_for_a_node(node: KubernetesNode, expected: tuple[str, str] | None) -> None:
    inner = vm(smbios_uuid=UUID)
    found = kubernetes_node(inner, view(inner, kubernetes=(node,)))
    assert (found and (found.by, found.sureness)) == expected


def test_the_configuration_stands_over_all() -> None:
    inner = vm(smbios_uuid=UUID)
    seen = view(inner, kubernetes=(KubernetesNode("k", UUID),), configured={"101": "named"})
    found = kubernetes_node(inner, seen)
    assert found is not None
    assert (found.name, found.by, found.sureness) == ("named", "config", "certain")


def test_two_vms_of_one_name_are_not_told_apart_by_it() -> None:
    one, two = vm(101, name="twin"), vm(102, name="twin")
    seen = view(one, two, kubernetes=(KubernetesNode("twin"),))
    assert kubernetes_node(one, seen) is None
    assert kubernetes_node(two, seen) is None


# -- the snapshot --------------------------------------------------------------------------------


def test_other_workloads_stay_and_the_same_vm_is_replaced() -> None:
    pod = Workload(id="prod/a", kind="pod")
    old = Workload(id="vm/101", kind="vm")
    before = snapshot(workloads=(pod, old), warnings=("w",), inventories=("kubernetes",))
    after = join(before, view(vm(hostpci0="41:00", tags=("training",)))).snapshot
    assert [one.id for one in after.workloads] == ["prod/a", "vm/101"]
    assert after.workloads[1].tags == ("training",)
    assert after.workloads[1].ram_mib == 65536
    assert after.inventories == ("kubernetes", "proxmox")
    assert after.warnings[0] == "w"


def test_vms_without_a_gpu_and_templates_are_left_out() -> None:
    seen = view(vm(104), vm(107, is_template=True, hostpci0="41:00"))
    assert join(snapshot(), seen).snapshot.workloads == ()


@given(
    cards=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 255)), max_size=6, unique=True),
    vms=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 255)), max_size=6),
    data=st.randoms(use_true_random=False),
)
def test_joins_never_cross_nodes_and_do_not_depend_on_order(
    cards: list[tuple[int, int]], vms: list[tuple[int, int]], data: Any
) -> None:
    gpus = [gpu(f"pve-{n}", i, f"00000000:{bus:02X}:00.0") for i, (n, bus) in enumerate(cards)]
    guests = [
        vm(100 + i, f"pve-{n}", hostpci0=f"0000:{bus:02x}:00") for i, (n, bus) in enumerate(vms)
    ]
    first = join(snapshot(*gpus), view(*guests))
    data.shuffle(gpus)
    second = join(snapshot(*gpus), view(*guests))
    assert first.snapshot.workloads == second.snapshot.workloads
    for one in first.snapshot.workloads:
        (guest,) = (g for g in guests if g.id == one.id)
        assert all(place.node == guest.node for place in one.placements)
