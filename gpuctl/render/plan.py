"""A plan as text: the moves, what they should bring, where it stops paying, what no move mends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuctl.model.durations import format_duration
from gpuctl.model.plan import ClusterState, PlanDocument, PlannedMove
from gpuctl.render.heatmap_frame import cluster_words, source_words, time_words
from gpuctl.render.screen import Screen
from gpuctl.render.tables import plain_table

_BAR_CELLS = 20


def plan_lines(doc: PlanDocument, screen: Screen, *, explain: bool = False) -> list[str]:
    """The plan for a screen. `explain` adds every workload that was left where it is, and why."""
    lines = [*_head(doc, screen), ""]
    lines += list(_moves(doc, screen, explain=explain)) if doc.moves else [_nothing_to_do(doc)]
    lines += ["", *_effect(doc)]
    if doc.moves:
        lines += ["", *_nodes(doc, screen), "", *_frontier(doc, screen)]
    lines += ["", *(f"certain: {text}" for text in doc.certificate)]
    lines += [
        f"finding: {screen.name(f.subject)}: {screen.name(f.text)}; {f.advice}"
        for f in doc.findings
    ]
    lines += list(_skipped(doc, screen, explain=explain))
    return [line.rstrip() for line in lines]


def plan_rows(doc: PlanDocument) -> tuple[list[str], list[list[str | float | None]]]:
    """One row per move, raw numbers."""
    headers = [
        "id", "wave", "action", "workload", "from", "to", "from_before_pct", "from_after_pct",
        "to_before_pct", "to_after_pct", "error_points", "cost_memory_mib", "cost_seconds",
        "reason", "unknown",
    ]  # fmt: skip
    return headers, [_row(move) for move in doc.moves]


def plan_names(doc: PlanDocument) -> list[str]:
    """`evict/NAMESPACE/POD` or `migrate/vm/ID`, in the order of the moves."""
    return [f"{move.action}/{move.workload}" for move in doc.moves]


def _row(move: PlannedMove) -> list[str | float | None]:
    expected = move.expected
    return [
        move.id,
        move.wave,
        move.action,
        move.workload,
        move.source.address,
        move.target.address,
        expected.from_before_pct,
        expected.from_after_pct,
        expected.to_before_pct,
        expected.to_after_pct,
        expected.error_points,
        move.cost.memory_mib,
        move.cost.seconds,
        move.reason,
        " ".join(move.unknown),
    ]


def _head(doc: PlanDocument, screen: Screen) -> list[str]:
    target = doc.target_spread_pct
    goal = doc.goal if target is None else f"{doc.goal} to a spread of {target:g} points"
    where = screen.name(cluster_words(doc.context, doc.cluster))
    source = screen.name(source_words(doc.source, simulated=doc.simulated))
    return [f"{where}  {source}  {time_words(doc.created_at)}", f"DRY RUN  goal: {goal}"]


def _nothing_to_do(doc: PlanDocument) -> str:
    if doc.before.hot:
        return "DRY RUN  no moves: nothing that may move would help"
    return "DRY RUN  no moves: the cluster needs none for this goal"


def _moves(doc: PlanDocument, screen: Screen, *, explain: bool) -> Iterator[str]:
    headers = ["", "wave", "move", "from", "to", "load from", "load to", "takes"]
    rows = [
        [
            move.id,
            str(move.wave + 1),
            f"{move.action} {screen.name(move.workload)}",
            screen.name(move.source.address),
            screen.name(move.target.address),
            _change(move.expected.from_before_pct, move.expected.from_after_pct, screen),
            _change(move.expected.to_before_pct, move.expected.to_after_pct, screen)
            + (f" +-{move.expected.error_points:.0f}" if move.expected.error_points else ""),
            format_duration(round(move.cost.seconds)),
        ]
        for move in doc.moves
    ]
    table = plain_table(
        headers, rows, numeric=("wave",), width=screen.width, ascii_only=not screen.utf8
    )
    yield from table.rstrip("\n").split("\n")
    # Why a move evens out stands in its loads already; why a card needs relief does not.
    told = [m for m in doc.moves if explain or m.source.address in doc.before.hot]
    for reason, ids in _reasons(told):
        yield f"  {ids}: {screen.name(reason)}"


def _reasons(moves: Sequence[PlannedMove]) -> Iterator[tuple[str, str]]:
    grouped: dict[str, list[str]] = {}
    for move in moves:
        grouped.setdefault(move.reason, []).append(move.id)
    yield from ((reason, ", ".join(ids)) for reason, ids in grouped.items())


def _change(before: float, after: float, screen: Screen) -> str:
    return f"{before:.0f} {_arrow(screen)} {after:.0f} %"


def _arrow(screen: Screen) -> str:
    return "→" if screen.utf8 else "->"


def _effect(doc: PlanDocument) -> list[str]:
    return [f"before  {_state(doc.before)}", f"after   {_state(doc.after)}   (predicted)"]


def _state(state: ClusterState) -> str:
    def figure(value: float | None, form: str) -> str:
        return "unknown" if value is None else form.format(value)

    return (
        f"hot {len(state.hot)}, spread {figure(state.spread_pct, '{:.0f} points')}, "
        f"balance {figure(state.balance_ratio, '{:.1f}x')}, "
        f"hottest {figure(state.max_utilization_pct, '{:.0f} %')}, "
        f"coolest {figure(state.min_utilization_pct, '{:.0f} %')}"
    )


def _nodes(doc: PlanDocument, screen: Screen) -> Iterator[str]:
    changed = [n for n in doc.before.nodes if doc.before.nodes[n] != doc.after.nodes.get(n)]
    yield "mean of each node that changes, before and after"
    width = max((len(screen.name(node)) for node in changed), default=0)
    for node in changed:
        before, after = doc.before.nodes[node], doc.after.nodes.get(node, 0.0)
        yield (
            f"  {screen.name(node):<{width}}  {before:3.0f} {_bar(before, screen)}  "
            f"{after:3.0f} {_bar(after, screen)}"
        )


def _bar(percent: float, screen: Screen) -> str:
    filled = round(percent / 100 * _BAR_CELLS)
    full, rest = ("█", "·") if screen.utf8 else ("#", ".")
    return full * filled + rest * (_BAR_CELLS - filled)


def _frontier(doc: PlanDocument, screen: Screen) -> Iterator[str]:
    yield "where it stops paying"
    rows: list[list[str | int]] = [
        [
            point.moves,
            point.hot,
            f"{point.spread_pct:.0f}",
            f"{point.max_utilization_pct:.0f} %",
            screen.name(point.hottest or "--"),
            "unknown" if point.p95_ms is None else f"{point.p95_ms:.0f} ms",
        ]
        for point in doc.frontier
    ]
    table = plain_table(
        ["moves", "hot", "spread", "hottest", "", "P95 of the hot pods"],
        rows,
        numeric=("moves", "hot", "spread", "hottest", "P95 of the hot pods"),
        width=screen.width,
        ascii_only=not screen.utf8,
    )
    yield from (f"  {line}" for line in table.rstrip("\n").split("\n"))
    yield "  P95: estimated by a queueing model for the pods now on the hottest GPU"


def _skipped(doc: PlanDocument, screen: Screen, *, explain: bool) -> Iterator[str]:
    if not doc.skipped:
        return
    if not explain:
        rules = Counter(one.rule for one in doc.skipped)
        counts = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items()))
        yield f"stay: {len(doc.skipped)} workloads ({counts}); --explain names them"
        return
    yield f"stay: {len(doc.skipped)} workloads"
    for one in doc.skipped:
        yield f"  {screen.name(one.workload)}  {one.rule}: {screen.name(one.reason)}"
