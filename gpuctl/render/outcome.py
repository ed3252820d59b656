"""What an action is about to do, and what it did, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuctl.errors import shorten
from gpuctl.model.outcome import Landing, OutcomeDocument, OutcomeStep
from gpuctl.model.plan import DeviceRef
from gpuctl.render.heatmap_frame import cluster_words, time_words
from gpuctl.render.screen import Screen
from gpuctl.render.tables import Cell, plain_table

_MANY, _MOST_NAMES = 3, 5
#: What a person reads for an action and a status; else the status itself.
_WORDS = {
    ("evict", "done"): "evicted",
    ("evict", "allowed"): "would be evicted",
    ("migrate", "done"): "migrated",
    ("migrate", "allowed"): "would be migrated",
}


def outcome_lines(doc: OutcomeDocument, screen: Screen) -> list[str]:
    """The outcome for a screen: each step with its reason in full, the holds, and the sum."""
    mark = "DRY RUN  " if doc.dry_run else ""
    where = screen.name(cluster_words(doc.context, doc.cluster))
    simulated = "  SIMULATED" if doc.simulated else ""
    lines = [f"{mark}{doc.command}  {where}{simulated}  {time_words(doc.started_at)}"]
    alike = _alike(doc.steps)
    for step in doc.steps:
        if step not in alike:
            lines += [f"{mark}  {text}" for text in step_lines(step, screen)]
    lines += [f"{mark}  {text}" for text in _refusals(alike, screen)]
    lines += [f"  {text}" for text in _hold_lines(doc)]
    lines.append(f"{mark}{summary_words(doc)}")
    return lines


def way_words(step: OutcomeStep, screen: Screen) -> str:
    """` from gpu-a/0 to gpu-b`, as far as it is known."""
    ends = (("from", step.source), ("to", step.target))
    return "".join(
        f" {preposition} {screen.name(place_words(place))}"
        for preposition, place in ends
        if place is not None
    )


def step_lines(step: OutcomeStep, screen: Screen) -> list[str]:
    """One step: what, from where, how it ended, and why where that says more."""
    name, way = screen.name(step.workload), way_words(step, screen)
    lines = [f"{step.id}  {name}{way}: {status_words(step)}"]
    if step.reason not in (step.status, status_words(step)):
        lines.append(f"    {screen.name(step.reason)}")
    return lines


def _alike(steps: Sequence[OutcomeStep]) -> list[OutcomeStep]:
    """Steps that a rule refused before anything was tried, where many share one reason."""
    ruled_out = [step for step in steps if step.status == "refused" and step.started_at is None]
    counts = Counter(step.reason for step in ruled_out)
    return [step for step in ruled_out if counts[step.reason] >= _MANY]


def _refusals(steps: Sequence[OutcomeStep], screen: Screen) -> Iterator[str]:
    """Who was ruled out, once for each reason; names beyond a few are in the document."""
    grouped: dict[str, list[str]] = {}
    for step in steps:
        grouped.setdefault(step.reason, []).append(step.workload)
    for reason, names in grouped.items():
        count = f"{len(names)} " if len(names) > 1 else ""
        yield f"{count}refused: {screen.name(shorten(names, _MOST_NAMES))}"
        yield f"    {screen.name(reason)}"


def status_words(step: OutcomeStep) -> str:
    """`evicted`, `would be evicted`, `refused` ..."""
    if step.action == "migrate" and step.status == "done" and step.landed is None:
        return "migration started"  # only where it was seen to run is it migrated
    return _WORDS.get((step.action, step.status), step.status)


def place_words(place: DeviceRef) -> str:
    """The device, or only its node where nobody knows which device it is."""
    return place.node if place.gpu is None else place.address


def summary_words(doc: OutcomeDocument) -> str:
    """`3 evicted, 1 refused (run 20250301T021000Z-4f2a)`, the run where it is in the journal."""
    counts = Counter(status_words(step) for step in doc.steps)
    parts = ", ".join(f"{count} {words}" for words, count in counts.items())
    is_kept = not doc.dry_run and any(step.started_at for step in doc.steps)
    run = f" (run {doc.run_id})" if is_kept else ""
    return f"{parts or 'nothing to do'}{run}"


def _hold_lines(doc: OutcomeDocument) -> Iterator[str]:
    for hold in doc.holds:
        if not hold.placed:
            state = "was on before, and stays on"
        else:
            state = "undone" if hold.removed else "STILL ON"
        yield f"{hold.kind} of {hold.node}: {state}"


def outcome_rows(steps: Sequence[OutcomeStep]) -> tuple[list[str], list[list[Cell | bool]]]:
    """One row per step, raw values."""
    headers = [
        "id", "action", "workload", "from", "to", "status", "changed", "landed", "landed_pct",
        "cooler", "started_at", "ended_at", "reason",
    ]  # fmt: skip
    return headers, [_row(step) for step in steps]


def _row(step: OutcomeStep) -> list[Cell | bool]:
    landed = step.landed
    return [
        step.id,
        step.action,
        step.workload,
        None if step.source is None else step.source.address,
        None if step.target is None else step.target.address,
        step.status,
        step.changed,
        None if landed is None else _landed(landed),
        None if landed is None else landed.utilization_pct,
        None if landed is None else landed.cooler,
        None if step.started_at is None else time_words(step.started_at),
        None if step.ended_at is None else time_words(step.ended_at),
        step.reason,
    ]


def _landed(landing: Landing) -> str:
    index = "?" if landing.gpu is None else landing.gpu
    return f"{landing.node}/{index}" + ("" if landing.mig_id is None else f":{landing.mig_id}")


def outcome_names(doc: OutcomeDocument) -> list[str]:
    """`evict/NAMESPACE/POD` of every step that was done, or would be."""
    return [
        f"{one.action}/{one.workload}" for one in doc.steps if one.status in ("done", "allowed")
    ]


def plan_text(steps: Sequence[OutcomeStep], refused: Sequence[OutcomeStep], screen: Screen) -> str:
    """What is about to be done, for stderr, one line a step; then who stays, and why."""
    headers = ["", "evict", "from", "note"]
    rows = [
        [
            step.id,
            screen.name(step.workload),
            "" if step.source is None else screen.name(place_words(step.source)),
            screen.name(step.reason),
        ]
        for step in steps
    ]
    text = plain_table(headers, rows, ascii_only=not screen.utf8) if rows else ""
    return text + "".join(f"{line}\n" for line in _refusals(refused, screen))
