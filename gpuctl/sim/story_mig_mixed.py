"""The story `mig-mixed`: cards cut into MIG instances in several ways beside whole ones.

One 3g.40gb is hot while its card looks half idle; a 1g.10gb is free beside it. One card is lost
(XID 79), one has no profiling fields, one is shared by three pods, one has a +me instance.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from gpuctl.sim.scenario import (
    Constant,
    GpuSpec,
    MigSpec,
    NodeSpec,
    Place,
    Scenario,
    Sine,
    Workload,
)

_FB_MIB = {
    "1g.6gb": 6012,
    "1g.10gb": 9728,
    "1g.10gb+me": 9728,
    "2g.20gb": 19968,
    "3g.40gb": 40192,
    "4g.40gb": 40192,
    "7g.80gb": 80896,
}


def mig_mixed() -> Scenario:
    """The scenario; the same on every call."""
    return Scenario(
        name="mig-mixed",
        title="MIG and whole cards: a hot 3g.40gb on a card that looks half idle, one card lost",
        epoch=datetime(2025, 3, 4, 6, 45, tzinfo=UTC),
        seed=1,
        cluster="hk-mig",
        nodes=(
            NodeSpec("mig-01", "NVIDIA A100-SXM4-80GB", _mig_01()),
            NodeSpec("mig-02", "NVIDIA A100-SXM4-80GB", _mig_02()),
            NodeSpec("a30-01", "NVIDIA A30", _a30_01()),
        ),
        workloads=(*_on_mig_01(), *_on_mig_02(), *_on_a30_01()),
    )


def _cut(*instances: tuple[int, str]) -> tuple[MigSpec, ...]:
    return tuple(MigSpec(mig_id, profile, _FB_MIB[profile]) for mig_id, profile in instances)


def _a100(*instances: tuple[int, str]) -> GpuSpec:
    return GpuSpec(fb_mib=81920, mig=_cut(*instances))


def _mig_01() -> tuple[GpuSpec, ...]:
    return (
        _a100((2, "3g.40gb"), (3, "2g.20gb"), (9, "1g.10gb"), (10, "1g.10gb")),
        _a100(*((mig_id, "1g.10gb") for mig_id in range(7, 14))),
        _a100((0, "7g.80gb")),
        _a100((1, "4g.40gb"), (2, "3g.40gb")),
    )


def _mig_02() -> tuple[GpuSpec, ...]:
    return (
        GpuSpec(fb_mib=81920),
        GpuSpec(fb_mib=81920),
        GpuSpec(fb_mib=81920, xid=79, lost_for_seconds=25 * 60),
        _a100((1, "3g.40gb"), (5, "2g.20gb"), (13, "1g.10gb+me")),
    )


def _a30_01() -> tuple[GpuSpec, ...]:
    return (
        GpuSpec(
            fb_mib=24576,
            reserved_mib=528,
            mig=_cut(*((mig_id, "1g.6gb") for mig_id in range(3, 7))),
        ),
        # Support for profiling is probed on GPU 0 alone, so a mixed node may lack it elsewhere.
        GpuSpec(fb_mib=24576, reserved_mib=528, profiling=False),
    )


def _on_mig_01() -> tuple[Workload, ...]:
    return (
        _pod("prod/serve-a-0", Place("mig-01", 0, 2), 95.0, 35210),
        _pod("prod/serve-b-0", Place("mig-01", 0, 3), 40.0, 9010),
        _pod("dev/nb-1", Place("mig-01", 0, 9), 10.0, 1830, "unknown"),
        _pod("prod/ocr-0", Place("mig-01", 1, 7), 62.0, 5120),
        _pod("prod/ocr-1", Place("mig-01", 1, 8), 58.0, 5120),
        _pod("dev/nb-2", Place("mig-01", 1, 9), 0.0, 6144, "unknown"),
        _pod("prod/asr-0", Place("mig-01", 1, 12), 33.0, 4096),
        _pod("train/tune-0", Place("mig-01", 2, 0), 81.0, 62464, "training"),
        _pod("prod/rerank-0", Place("mig-01", 3, 1), 47.0, 20480),
    )


def _on_mig_02() -> tuple[Workload, ...]:
    return (
        _pod("train/full-0", Place("mig-02", 0), 72.0, 52224, "training"),
        _pod("prod/chat-0", Place("mig-02", 1), 31.0, 18210),
        _pod("prod/chat-1", Place("mig-02", 1), 22.0, 12044),
        _pod("dev/nb-3", Place("mig-02", 1), 0.0, 2048, "unknown"),
        _pod("prod/serve-a-1", Place("mig-02", 3, 1), 51.0, 35210),
        _pod("prod/video-0", Place("mig-02", 3, 13), 44.0, 7168),
    )


def _on_a30_01() -> tuple[Workload, ...]:
    return (
        _pod("edge/detect-0", Place("a30-01", 0, 3), 84.0, 4100),
        _pod("edge/detect-1", Place("a30-01", 0, 5), 33.0, 2050),
        _pod("edge/detect-2", Place("a30-01", 0, 6), 70.0, 5480),
        _pod("edge/batch-0", Place("a30-01", 1), 26.0, 9216),
    )


def _pod(
    pod: str,
    place: Place,
    load_pct: float,
    memory_mib: int,
    workload_class: Literal["training", "inference", "unknown"] = "inference",
) -> Workload:
    """A pod of a stateful set, or a bare one for a notebook."""
    base, _, ordinal = pod.partition("/")[2].rpartition("-")
    is_bare = workload_class == "unknown"
    jitter = round(0.03 * load_pct, 2)
    wave = Sine(round(0.15 * load_pct, 1), 7200, 0.25 * (int(ordinal) % 4), jitter)
    return Workload(
        id=pod,
        kind="pod",
        workload_class=workload_class,
        owner=None if is_bare else f"StatefulSet/{base}",
        placements=(place,),
        load_pct=load_pct,
        # The hottest instance holds its level, so that it is hot over any window.
        shape=Constant(jitter) if is_bare or load_pct >= 90 else wave,
        memory_mib=memory_mib,
        container="notebook" if is_bare else "server",
        evictable=workload_class != "training",
        labels={"app": "train"} if workload_class == "training" else {"app": base},
    )
