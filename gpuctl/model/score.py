"""Documents of `gpuctl score`: what was asked for, and how well each node or GPU would do."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from gpuctl.model.snapshot import Source

WorkloadKind = Literal["inference", "training"]


class Request(Struct, frozen=True, kw_only=True):
    """What a new workload needs.

    - gpus: how many GPUs, or MIG instances when `mig_profile` is set
    - memory_mib: framebuffer on each of them; None when nobody said
    - gpu_model: a glob that the model's name must fit
    - shared: it asks for a slot of a shared card (`nvidia.com/gpu.shared`)
    - unchecked: conditions that only an inventory could check, in words
    """

    gpus: int = 1
    memory_mib: float | None = None
    mig_profile: str | None = None
    gpu_model: str | None = None
    workload_class: WorkloadKind | None = None
    shared: bool = False
    unchecked: tuple[str, ...] = ()


class ScoreParts(Struct, frozen=True, kw_only=True):
    """What a score is made of, in points; the parts add up to it.

    - compute, memory: for the headroom (or whatever the strategy values) on the GPUs it would get
    - spread: for narrowing the spread between GPUs instead of widening it
    - fragmentation: for harm not done to placements that are still to come
    - hot: 0 or less, for hot GPUs on the node
    - freshness: the whole score of what is unknown or stale, else 0
    """

    compute: float = 0.0
    memory: float = 0.0
    spread: float = 0.0
    fragmentation: float = 0.0
    hot: float = 0.0
    freshness: float = 0.0


class ScoreReasons(Struct, frozen=True, kw_only=True):
    """A sentence for each part of a score."""

    compute: str
    memory: str
    spread: str
    fragmentation: str
    hot: str
    freshness: str


class Scored(Struct, frozen=True, kw_only=True):
    """One node, or one GPU or MIG instance, that could take the workload.

    `stale`: its figures are unknown or too old, and the score is a neutral one. `gpus_free`: how
    many GPUs (or instances, or cards with a free slot) it could get there, and `gpus` how many of
    that kind there are; None where unknown. `memory_free_mib`: the most that one of the free ones
    has. `gpu`, `uuid`, `mig_id` and `mig_profile` are null for a whole node. `explanation` is there
    when it was asked for.
    """

    node: str
    gpu: int | None = None
    uuid: str | None = None
    mig_id: int | None = None
    mig_profile: str | None = None
    score: float
    stale: bool
    parts: ScoreParts
    gpus: int | None
    gpus_free: int | None
    utilization_mean_pct: float | None
    memory_free_mib: float | None
    reason: str = ""
    explanation: ScoreReasons | None = None


class Refusal(Struct, frozen=True, kw_only=True):
    """One node, GPU or MIG instance that can't take the workload, with the rule that says so."""

    node: str
    gpu: int | None = None
    uuid: str | None = None
    mig_id: int | None = None
    mig_profile: str | None = None
    rule: str
    reason: str


class ScoreListDocument(Struct, frozen=True, kw_only=True):
    """`kind: score_list`. Items: best first; refusals: by node and GPU."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["score_list"] = "score_list"
    generated_at: datetime
    taken_at: datetime
    context: str | None
    cluster: str | None
    source: Source
    simulated: bool
    level: Literal["node", "gpu"]
    strategy: str
    weights: dict[str, float]
    request: Request
    items: tuple[Scored, ...]
    refused: tuple[Refusal, ...]
    warnings: tuple[str, ...] = ()
