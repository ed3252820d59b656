"""The story `three-full-five-idle`: a scheduler that packs, and five nodes that nobody uses.

Nodes 2, 4 and 7 hold nearly all pods at 85 to 97 % a card; each also runs two training pods that
span two cards and stay. The other five nodes carry a notebook here and there. All inference can
move, so that the cluster can be evened out near its mean.
"""

from __future__ import annotations

from datetime import UTC, datetime

from gpuctl.sim.draws import Draws
from gpuctl.sim.scenario import Constant, GpuSpec, NodeSpec, Place, Scenario, Sine, Workload

_NODES = tuple(f"h100-{number:02d}" for number in range(1, 9))
_FULL = ("h100-02", "h100-04", "h100-07")
_GPUS = 8
_TRAINED_GPUS = 4  # of each full node, in pairs
_SERVICES = (
    "llama-chat", "qwen-chat", "mistral-code", "embed-large", "rerank-xl", "whisper", "tts-neural",
    "sdxl", "doc-parse", "vision-qa", "translate-hk", "summarize-news",
)  # fmt: skip


def three_full_five_idle() -> Scenario:
    """The scenario; the same on every call."""
    draws = Draws("three-full-five-idle", 1)
    training = [
        _training_pod(node, first, number)
        for number, node in enumerate(_FULL)
        for first in range(0, _TRAINED_GPUS, 2)
    ]
    return Scenario(
        name="three-full-five-idle",
        title="8 nodes of 8 H100: three are full, five have next to nothing to do",
        epoch=datetime(2025, 3, 3, 1, 30, tzinfo=UTC),
        seed=1,
        cluster="hk-h100",
        nodes=tuple(
            NodeSpec(
                name, "NVIDIA H100 80GB HBM3", (GpuSpec(fb_mib=81559, reserved_mib=551),) * _GPUS
            )
            for name in _NODES
        ),
        workloads=(*training, *_inference(draws), *_notebooks(draws)),
    )


def _training_pod(node: str, first: int, number: int) -> Workload:
    """A worker on two cards of a full node: under the cluster's mean, so it may stay."""
    job = f"pretrain-{'abc'[number]}"
    return Workload(
        id=f"train/{job}-worker-{first // 2}",
        kind="pod",
        workload_class="training",
        owner=f"Job/{job}",
        placements=(Place(node, first), Place(node, first + 1)),
        load_pct=30.0,
        shape=Constant(jitter_pct=0.8),
        memory_mib=34816,
        container="trainer",
        priority=1000,
        evictable=False,
        labels={"app": "train", "job": job},
    )


def _inference(draws: Draws) -> list[Workload]:
    """Pods that fill each card of the full nodes to 85..97 %."""
    cards = [(node, gpu) for node in _FULL for gpu in range(_GPUS)]
    sets = {name: draws.suffix(9) for name in _SERVICES}
    pods = []
    for index, (node, gpu) in enumerate(cards):
        is_trained = gpu < _TRAINED_GPUS
        total = draws.uniform(85, 96.5) - (30 if is_trained else 0)
        parts = _split(draws, total, 4 if is_trained else 6)
        for part, load in enumerate(parts):
            name = _SERVICES[(index * 5 + part) % len(_SERVICES)]
            pods.append(
                Workload(
                    id=f"serving/{name}-{sets[name]}-{draws.suffix(5)}",
                    kind="pod",
                    workload_class="inference",
                    owner=f"Deployment/{name}",
                    placements=(Place(node, gpu),),
                    load_pct=load,
                    shape=Sine(
                        amplitude_pct=round(0.1 * load, 1),
                        period_seconds=3600 * draws.integer(2, 6),
                        phase=draws.uniform(0, 1, 2),
                        jitter_pct=round(0.03 * load, 2),
                    ),
                    memory_mib=512 * draws.integer(12, 20),
                    container="server",
                    labels={"app": name, "tier": "inference"},
                )
            )
    return pods


def _split(draws: Draws, total: float, count: int) -> list[float]:
    """`total` in `count` parts that differ by up to a factor of two, to a tenth of a point."""
    weights = [draws.uniform(1, 2, 3) for _ in range(count)]
    parts = [round(total * weight / sum(weights), 1) for weight in weights[:-1]]
    return [*parts, round(total - sum(parts), 1)]


def _notebooks(draws: Draws) -> list[Workload]:
    """One small pod on every other card of the idle nodes."""
    idle = [node for node in _NODES if node not in _FULL]
    return [
        Workload(
            id=f"lab/notebook-{number}-0",
            kind="pod",
            workload_class="unknown",
            owner=f"StatefulSet/notebook-{number}",
            placements=(Place(node, gpu),),
            load_pct=draws.uniform(1, 7),
            shape=Constant(jitter_pct=0.4),
            memory_mib=256 * draws.integer(4, 24),
            container="notebook",
            labels={"app": "notebook"},
        )
        for number, (node, gpu) in enumerate((node, gpu) for node in idle for gpu in range(0, 8, 2))
    ]
