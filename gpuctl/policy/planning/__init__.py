"""The cheapest set of moves for a goal: pure search over plain values, and a checker beside it."""

from gpuctl.policy.planning.checker import evaluate, violations
from gpuctl.policy.planning.problem import (
    Certificate,
    DeviceSpec,
    Evaluation,
    FrontierStep,
    Goal,
    GpuSpec,
    GroupSpec,
    ItemSpec,
    MalformedProblemError,
    Move,
    Params,
    Problem,
    Solution,
    Violation,
)
from gpuctl.policy.planning.solve import solve

__all__ = [
    "Certificate",
    "DeviceSpec",
    "Evaluation",
    "FrontierStep",
    "Goal",
    "GpuSpec",
    "GroupSpec",
    "ItemSpec",
    "MalformedProblemError",
    "Move",
    "Params",
    "Problem",
    "Solution",
    "Violation",
    "evaluate",
    "solve",
    "violations",
]
