"""The ranking of `gpuctl score` as a table, as rows for programs, and explained part by part."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.errors import shorten
from gpuctl.model.quantities import memory_words
from gpuctl.model.score import Refusal, Request, Scored, ScoreListDocument
from gpuctl.render.heatmap_frame import (
    age_words,
    cluster_words,
    frame_head,
    source_words,
    time_words,
)
from gpuctl.render.screen import Screen, finished, flow, plain
from gpuctl.render.tables import MISSING, Cell, plain_table

PARTS = ("compute", "memory", "spread", "fragmentation", "hot", "freshness")
#: Names of the columns for programs: those of the JSON document, refused ones at the end.
HEADERS = (
    "rank",
    "node",
    "gpu",
    "mig_id",
    "mig_profile",
    "score",
    "stale",
    "gpus",
    "gpus_free",
    "utilization_mean_pct",
    "memory_free_mib",
    *PARTS,
    "rule",
    "reason",
    "uuid",
)
_TEXTS = frozenset({"node", "mig_profile", "stale", "rule", "reason", "uuid"})
NUMERIC = frozenset(HEADERS) - _TEXTS

#: Columns that a narrow screen does without, and the width from which on they are shown.
_GIVING_WAY = (("mem free", 70), ("mean util", 56), ("util", 50))

Row = tuple[Cell | bool, ...]


def score_lines(doc: ScoreListDocument, screen: Screen, *, age: float | None) -> list[str]:
    """The whole answer for a person; `age` is that of the newest sample, in seconds."""
    head = frame_head(
        cluster_words(doc.context, doc.cluster),
        source_words(doc.source, simulated=doc.simulated),
        [age_words(age), time_words(doc.taken_at)],
        screen,
    )
    asked = flow([plain(word) for word in _asked_words(doc, screen)], screen.width, gap=" ")
    lines = finished([*head, *asked], Screen(screen.width, utf8=screen.utf8))
    lines += _table(doc, screen)
    lines += _refused(doc, screen)
    for item in doc.items:
        if item.explanation is not None:
            lines += ["", *_explained(item, screen)]
    return lines


def _asked_words(doc: ScoreListDocument, screen: Screen) -> list[str]:
    text = f"for {request_words(doc.request)}; strategy {doc.strategy}"
    return screen.name(text).split()


def request_words(request: Request) -> str:
    """`2 GPUs of model *A100*, 20.0 GiB free on each, for training`."""
    profile = request.mig_profile
    what = "MIG instance" if profile else "shared GPU" if request.shared else "GPU"
    words = [f"{request.gpus} {what}{'' if request.gpus == 1 else 's'}"]
    if profile is not None:
        words.append(f" {profile}")
    if request.gpu_model is not None:
        words.append(f" of model {request.gpu_model}")
    if request.memory_mib is not None:
        each = "" if request.gpus == 1 else " on each"
        words.append(f", {memory_words(request.memory_mib)} free{each}")
    if request.workload_class is not None:
        words.append(f", for {request.workload_class}")
    return "".join(words)


def _table(doc: ScoreListDocument, screen: Screen) -> list[str]:
    if not doc.items:
        what = "node" if doc.level == "node" else "GPU"
        return [f"No {what} can take it."]
    by_gpu = doc.level == "gpu"
    load = "util" if by_gpu else "mean util"
    headers = ["rank", "gpu" if by_gpu else "node", "score", *([] if by_gpu else ["free"])]
    headers += [load, "mem free", "note"]
    numeric = {"rank", "score", "free", load, "mem free"}
    rows = [_row(rank, item, by_gpu=by_gpu) for rank, item in enumerate(doc.items, 1)]
    for column, at_least in _GIVING_WAY:
        if screen.width is not None and screen.width < at_least and column in headers:
            place_of_it = headers.index(column)
            headers.pop(place_of_it)
            for row in rows:
                row.pop(place_of_it)
    text = plain_table(
        headers, rows, numeric=numeric, width=screen.width, ascii_only=not screen.utf8
    )
    return text.splitlines()


def _row(rank: int, item: Scored, *, by_gpu: bool) -> list[Cell]:
    load, memory = item.utilization_mean_pct, item.memory_free_mib
    free = [] if by_gpu else [None if item.gpus is None else _free(item)]
    note = f"neutral: {item.reason}" if item.stale else item.reason
    return [
        rank,
        place(item) if by_gpu else item.node,
        f"{item.score:.1f}",
        *free,
        None if load is None else f"{load:.0f} %",
        None if memory is None else memory_words(memory),
        note,
    ]


def _free(item: Scored) -> str:
    known = MISSING if item.gpus_free is None else str(item.gpus_free)
    return f"{known} of {item.gpus}"


def place(item: Scored | Refusal) -> str:
    """`NODE`, `NODE/GPU`, or `NODE/GPU PROFILE#ID` for a MIG instance."""
    if item.uuid is None:
        return item.node
    index = "?" if item.gpu is None else item.gpu
    suffix = "" if item.mig_id is None else f" {item.mig_profile}#{item.mig_id}"
    return f"{item.node}/{index}{suffix}"


def _refused(doc: ScoreListDocument, screen: Screen) -> Iterator[str]:
    """Refusals, those for the same reason in one line; one each where nothing reads over it."""
    if not doc.refused:
        return
    grouped: dict[tuple[str, str], list[str]] = {}
    for refusal in doc.refused:
        key = refusal.rule, refusal.reason
        grouped.setdefault(key, []).append(screen.name(place(refusal)))
    yield f"refused ({len(doc.refused)}):"
    for (rule, reason), names in grouped.items():
        said = f"{screen.name(reason)} ({rule})"
        if screen.width is None:
            yield from (f"  {name}: {said}" for name in names)
        else:
            yield from _wrapped(f"{said}: {shorten(names, 5)}", screen)


def _explained(item: Scored, screen: Screen) -> Iterator[str]:
    yield f"{screen.name(place(item))}  {item.score:.2f} ="
    for name in PARTS:
        lead = f"  {name:<13} {getattr(item.parts, name):7.2f}  "
        words = screen.name(getattr(item.explanation, name)).split()
        width = None if screen.width is None else max(20, screen.width - len(lead))
        for line in flow([plain(word) for word in words], width, gap=" "):
            yield lead + line.text
            lead = " " * len(lead)


def _wrapped(text: str, screen: Screen) -> list[str]:
    """A line of prose, indented, later lines of it more so."""
    words = [plain(word) for word in text.split()]
    width = None if screen.width is None else max(20, screen.width - 2)
    return [f"  {line.text}" for line in flow(words, width, gap=" ", indent="  ")]


def score_rows(doc: ScoreListDocument) -> tuple[tuple[str, ...], list[Row]]:
    """Headers and a row for each item, then for each refusal, without rank and score."""
    items = [_item_row(rank, item) for rank, item in enumerate(doc.items, 1)]
    return HEADERS, [*items, *(_refusal_row(refusal) for refusal in doc.refused)]


def _item_row(rank: int, item: Scored) -> Row:
    return (
        rank,
        item.node,
        item.gpu,
        item.mig_id,
        item.mig_profile,
        item.score,
        item.stale,
        item.gpus,
        item.gpus_free,
        item.utilization_mean_pct,
        item.memory_free_mib,
        *(getattr(item.parts, name) for name in PARTS),
        None,
        item.reason,
        item.uuid,
    )


def _refusal_row(refusal: Refusal) -> Row:
    where = (refusal.node, refusal.gpu, refusal.mig_id, refusal.mig_profile)
    unknown: tuple[Cell, ...] = (None,) * (6 + len(PARTS))
    return (None, *where, *unknown, refusal.rule, refusal.reason, refusal.uuid)


def wide_score_table(
    doc: ScoreListDocument,
) -> tuple[tuple[str, ...], list[tuple[Cell, ...]], frozenset[str]]:
    """Headers, rows and the names of the numeric columns, for `-o wide`."""
    headers, rows = score_rows(doc)
    return headers, [tuple(_for_people(value) for value in row) for row in rows], NUMERIC


def _for_people(value: Cell | bool) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value == "" else value


def score_names(doc: ScoreListDocument) -> list[str]:
    """Best first: `node/NAME`, or `gpu/NODE/INDEX` with `/ID` for a MIG instance."""
    return [_name(item) for item in doc.items]


def _name(item: Scored) -> str:
    if item.uuid is None:
        return f"node/{item.node}"
    card = f"gpu/{item.node}/{item.uuid if item.gpu is None else item.gpu}"
    return card if item.mig_id is None else f"{card}/{item.mig_id}"
