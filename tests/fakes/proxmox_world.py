"""The hypervisors under a simulated cluster: its VMs with devices that fit their cards."""

from __future__ import annotations

from gpuctl.sim.scenario import Workload
from gpuctl.sim.world import World
from tests.fakes.proxmox_state import GIB, Cluster, Mapping, Node, Vm


def mapping_of(gpu: int) -> str:
    """The mapping that names the cards of this index: one device on every node that has it."""
    return f"gpu-{gpu}"


def address_of(gpu: int) -> str:
    """The PCI address of the card of this index, as the simulated exporters tell it."""
    return f"0000:{0x07 + 0x40 * (gpu % 4) + 4 * (gpu // 4):02x}:00.0"


def cluster_of(world: World, release: str = "9.2") -> Cluster:
    """Every node is a hypervisor; its VMs have a mapped vGPU, or a raw card if they can't move."""
    cluster = Cluster(release, now=int(world.epoch.timestamp()))
    for index, node in enumerate(world.scenario.nodes, 1):
        cluster.nodes[node.name] = Node(
            node.name, f"10.77.{index // 250}.{index % 250}", memory_bytes=2048 * GIB
        )
        for gpu in range(len(node.gpus)):
            name = mapping_of(gpu)
            mapping = cluster.mappings.setdefault(
                name, Mapping(name, f"vGPU of card {gpu}", {}, mdev=True, live=True)
            )
            mapping.paths[node.name] = [address_of(gpu)]
    cluster.add(*(_vm(one) for one in world.workloads() if one.kind == "vm"))
    return cluster


def _vm(workload: Workload) -> Vm:
    (node,) = {place.node for place in workload.placements}
    devices = {}
    for number, place in enumerate(workload.placements):
        raw = f"{address_of(place.gpu)},pcie=1"
        mapped = f"mapping={mapping_of(place.gpu)},mdev=nvidia-474,pcie=1"
        devices[f"hostpci{number}"] = mapped if workload.live_migratable else raw
    return Vm(
        vmid=int(workload.name),
        name=f"vm-{workload.name}",
        node=node,
        memory_mib=workload.ram_mib or 65536,
        tags=workload.tags,
        config=devices,
    )
