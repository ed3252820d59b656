"""Whether the data are good enough to decide on. A metrics outage must never look like idleness."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.errors import MetricsError, shorten
from gpuctl.model.durations import format_duration
from gpuctl.model.gpu import GpuState
from gpuctl.model.policy import Policy
from gpuctl.model.snapshot import Snapshot
from gpuctl.policy.balance import coverage_pct, silent_nodes
from gpuctl.policy.verdict import Verdict

# Past this the server's and this machine's clocks disagree too much to trust either's ages.
MOST_SKEW_SECONDS = 60.0


def data_guards(snapshot: Snapshot, policy: Policy, *, min_coverage: float) -> tuple[Verdict, ...]:
    """Every rule about the data with its value and limit, in order."""
    return (
        _has_fresh(snapshot),
        _has_window(snapshot, policy),
        _is_covered(snapshot, min_coverage),
        _is_whole(snapshot),
        _clock_agrees(snapshot),
    )


def require_good_data(snapshot: Snapshot, policy: Policy, *, min_coverage: float) -> None:
    """Raises MetricsError naming every rule about the data that objects."""
    refused = [
        verdict
        for verdict in data_guards(snapshot, policy, min_coverage=min_coverage)
        if verdict.is_refusal
    ]
    if refused:
        raise MetricsError(
            f"no decision on these metrics: {refused[0].reason}",
            cause=_others(refused[1:]),
            hint="look at gpuctl heatmap; --max-age and --max-missing decide with less",
        )


def _others(refused: Sequence[Verdict]) -> str | None:
    return "also " + "; ".join(verdict.reason for verdict in refused) if refused else None


def _has_fresh(snapshot: Snapshot) -> Verdict:
    fresh = sum(gpu.state not in (GpuState.LOST, GpuState.STALE) for gpu in snapshot.gpus)
    limit = snapshot.max_age_seconds
    age = "" if limit is None else f" newer than {format_duration(round(limit))}"
    return Verdict(bool(fresh), "metrics-age", f"no GPU has metrics{age}")


def _has_window(snapshot: Snapshot, policy: Policy) -> Verdict:
    seconds = snapshot.window_seconds
    window = format_duration(policy.hot_for)
    reason = (
        f"hot and idle need samples over {window}, there is one moment"
        if seconds is None
        else f"hot and idle need samples over {window}, there are {seconds:.0f}s"
    )
    enough = seconds is not None and seconds >= 0.99 * policy.hot_for.total_seconds()
    return Verdict(enough, "window", reason)


def _is_covered(snapshot: Snapshot, min_coverage: float) -> Verdict:
    covered = coverage_pct(snapshot.gpus, snapshot.known_nodes)
    silent = silent_nodes(snapshot.gpus, snapshot.known_nodes)
    known = len({*snapshot.known_nodes, *(gpu.node for gpu in snapshot.gpus)})
    return Verdict(
        covered is not None and covered >= min_coverage,
        "coverage",
        f"{len(silent)} of {known} nodes have no fresh GPU metrics ({shorten(silent)}), "
        f"at least {min_coverage:g} % must",
    )


def _is_whole(snapshot: Snapshot) -> Verdict:
    return Verdict(
        not snapshot.is_partial, "partial-answer", "the metrics server gave a partial answer"
    )


def _clock_agrees(snapshot: Snapshot) -> Verdict:
    skew = snapshot.clock_skew_seconds or 0.0
    return Verdict(
        abs(skew) <= MOST_SKEW_SECONDS,
        "clock-skew",
        f"this machine's clock and the server's are {format_duration(abs(round(skew)))} apart, "
        f"the limit is {format_duration(MOST_SKEW_SECONDS)}",
    )
