"""The hypervisors under a simulated cluster: its VMs with devices that fit their cards."""

from __future__ import annotations

from gpuctl.sim.scenario import Workload
from gpuctl.sim.world import World
from tests.fakes.proxmox_state import GIB, Cluster, Mapping, Node, Vm

MAPPING = "gpu-any"
_FIRST_BUS = 0x41


def address_of(gpu: int) -> str:
    """The PCI address that the card of this index has on every node."""
    return f"0000:{_FIRST_BUS + 0x10 * gpu:02x}:00.0"


def cluster_of(world: World, release: str = "9.2") -> Cluster:
    """Every node is a hypervisor; its VMs have a mapped vGPU, or a raw card if they can't move."""
    cluster = Cluster(release, now=int(world.epoch.timestamp()))
    paths: dict[str, list[str]] = {}
    for index, node in enumerate(world.scenario.nodes, 1):
        cluster.nodes[node.name] = Node(
            node.name, f"10.77.{index // 250}.{index % 250}", memory_bytes=2048 * GIB
        )
        paths[node.name] = [address_of(gpu) for gpu in range(len(node.gpus))]
    cluster.mappings[MAPPING] = Mapping(MAPPING, "any vGPU", paths, mdev=True, live=True)
    cluster.add(*(_vm(one) for one in world.workloads() if one.kind == "vm"))
    return cluster


def _vm(workload: Workload) -> Vm:
    (node,) = {place.node for place in workload.placements}
    devices = {}
    for number, place in enumerate(workload.placements):
        raw = f"{address_of(place.gpu)},pcie=1"
        mapped = f"mapping={MAPPING},mdev=nvidia-474,pcie=1"
        devices[f"hostpci{number}"] = mapped if workload.live_migratable else raw
    return Vm(
        vmid=int(workload.name),
        name=f"vm-{workload.name}",
        node=node,
        memory_mib=workload.ram_mib or 65536,
        tags=workload.tags,
        config=devices,
    )
