"""The settings that decisions depend on: marks, windows, weights and limits.

The keys are those of the configuration file's `policy` section.
"""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct, field


class ClassSelector(Struct, frozen=True, forbid_unknown_fields=True):
    """What puts a workload into a class: a Kubernetes label selector, tags of a VM, or both."""

    pods: str | None = None
    vm_tags: tuple[str, ...] = ()


class Classes(Struct, frozen=True, forbid_unknown_fields=True):
    """Selectors of the two workload classes; what neither matches is `unknown`."""

    training: ClassSelector = ClassSelector(pods="app in (train)", vm_tags=("training",))
    inference: ClassSelector = ClassSelector(pods="tier=inference")


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """How much may be moved, and on how good data.

    `metrics_max_age`: an older sample is stale (never less than two scrape intervals).
    `min_coverage`: percent of known GPU nodes that must have fresh metrics.
    """

    moves_per_run: int = 5
    moves_per_hour: int = 10
    parallel: int = 1
    per_node: int = 1
    cooldown: timedelta = timedelta(minutes=30)
    metrics_max_age: timedelta = timedelta(minutes=1)
    min_coverage: float = 90.0


#: What a score is made of. The first four share 100 points in proportion to their weights; `hot`
#: is the percentage of its points that a node loses when all of its GPUs are hot.
WEIGHTS = ("compute", "memory", "spread", "fragmentation", "hot")


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """Marks in percent of utilization, and the rules of moving.

    hot: over `hot_above` at every sample of the last `hot_for`.
    idle: under `idle_below` over the same window.
    `clear_below`: what a loop has found hot stays so until every sample is under this.
    `weights`: overrides single weights of the strategy; the names are those of WEIGHTS.
    `hot_above_by_profile` replaces `hot_above` for MIG instances of a profile, since the figure
    of a large instance may never reach the top (NVIDIA/DCGM#138).
    """

    hot_above: float = 90.0
    hot_for: timedelta = timedelta(minutes=5)
    hot_above_by_profile: dict[str, float] = field(default_factory=dict)
    clear_below: float = 80.0
    idle_below: float = 30.0
    target_spread: float = 20.0
    strategy: str = "least-loaded"
    weights: dict[str, float] = field(default_factory=dict)
    critical_priority: int = 1_000_000
    protected_namespaces: tuple[str, ...] = ("kube-system",)
    classes: Classes = Classes()
    limits: Limits = Limits()

    def hot_mark(self, profile: str | None = None) -> float:
        """The utilization over which a GPU, or an instance of `profile`, is hot."""
        if profile is None:
            return self.hot_above
        return self.hot_above_by_profile.get(profile, self.hot_above)
