"""A scenario repeated to any size, for benchmarks and for trying large clusters."""

from __future__ import annotations

from msgspec.structs import replace

from gpuctl.sim.scenario import NodeSpec, Place, Scenario, Workload


def resized(scenario: Scenario, nodes: int, gpus: int) -> Scenario:
    """`scenario` with `nodes` nodes of `gpus` cards each, its own repeated in turn or cut off.

    Nodes are numbered anew. The first copy of a workload keeps its name; later ones get a number,
    their owner too, so that a service keeps its size. A workload on several cards is copied with
    as many of them as its copy of the node has. Raises ValueError below one node or card.
    """
    if nodes < 1 or gpus < 1:
        raise ValueError(f"{nodes} nodes of {gpus} GPUs: at least one of each is needed")
    by_node: dict[str, list[Workload]] = {node.name: [] for node in scenario.nodes}
    for workload in scenario.workloads:
        for name in dict.fromkeys(place.node for place in workload.placements):
            by_node[name].append(workload)
    stem = scenario.nodes[0].name.rstrip("0123456789")
    width = max(2, len(str(nodes)))
    new_nodes: list[NodeSpec] = []
    new_workloads: list[Workload] = []
    for index in range(nodes):
        source = scenario.nodes[index % len(scenario.nodes)]
        name = f"{stem}{index + 1:0{width}d}"
        cards = tuple(source.gpus[gpu % len(source.gpus)] for gpu in range(gpus))
        new_nodes.append(NodeSpec(name, source.model, cards))
        rounds = -(-gpus // len(source.gpus))
        for turn in range(rounds):
            copy = index // len(scenario.nodes) * rounds + turn
            shift = turn * len(source.gpus)
            for workload in by_node[source.name]:
                places = tuple(
                    Place(name, place.gpu + shift, place.mig_id)
                    for place in workload.placements
                    if place.node == source.name and place.gpu + shift < gpus
                )
                if places:
                    new_workloads.append(_copied(workload, copy, places))
    return replace(scenario, nodes=tuple(new_nodes), workloads=tuple(new_workloads))


def _copied(workload: Workload, copy: int, places: tuple[Place, ...]) -> Workload:
    if copy == 0:
        return replace(workload, placements=places)
    owner = None if workload.owner is None else f"{workload.owner}-{copy}"
    # Numbers of VMs stay numbers.
    identity = f"{workload.id}-{copy}" if workload.kind == "pod" else _vm_id(workload, copy)
    return replace(workload, id=identity, owner=owner, placements=places)


def _vm_id(workload: Workload, copy: int) -> str:
    return (
        f"vm/{copy}{int(workload.name):06d}" if workload.name.isdigit() else f"{workload.id}-{copy}"
    )
