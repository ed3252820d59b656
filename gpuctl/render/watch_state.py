"""What the live view shows and how keys change it; no terminal, no clock, no data source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu
from gpuctl.model.history import Metric
from gpuctl.policy.overview import Sort
from gpuctl.render.watch_filter import Editor, Filter

Page = Literal["map", "gpu", "help", "warnings"]

_METRICS: tuple[Metric, ...] = ("util", "mem", "membw", "tensor", "temp", "power")
_SORTS: tuple[Sort, ...] = ("spread", "name", "util", "mem")
_PERIODS = tuple(timedelta(seconds=s) for s in (1, 2, 5, 10, 15, 30, 60, 120, 300))


@dataclass(frozen=True, slots=True)
class Spot:
    """Which GPU is selected: it keeps its selection when the order around it changes."""

    node: str
    gpu: int | None
    uuid: str

    @classmethod
    def of(cls, gpu: HeatmapGpu) -> Spot:
        """Where `gpu` is."""
        return cls(gpu.node, gpu.gpu, gpu.uuid)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the last frame was like, for keys that move by what is seen.

    `per_line`: nodes side by side; `page`: nodes, or lines of a text, on one screen;
    `last_offset`: how far a text can be scrolled.
    """

    per_line: int = 1
    page: int = 10
    last_offset: int = 0


@dataclass(frozen=True, slots=True)
class WatchState:
    """Everything that keys decide. `reads` and `redraws` count what was asked for by hand."""

    metric: Metric = "util"
    sort: Sort = "spread"
    period: timedelta = timedelta(seconds=5)
    by_mig: bool = False
    wide_cells: bool = False
    as_table: bool = False
    filter: Filter = field(default_factory=Filter)
    editor: Editor | None = None
    page: Page = "map"
    offset: int = 0
    selected: Spot | None = None
    is_paused: bool = False
    has_quit: bool = False
    reads: int = 0
    redraws: int = 0
    drawn: Drawn = field(default_factory=Drawn)


def on_key(state: WatchState, key: str, doc: HeatmapDocument) -> WatchState:
    """The state after `key` was pressed while `doc` was shown."""
    if key == "redraw":
        return replace(state, redraws=state.redraws + 1)
    if state.editor is not None:
        return _in_editor(state, state.editor, key)
    if key in _EVERYWHERE:
        return _EVERYWHERE[key](state)
    if state.page == "map":
        return _on_map(state, key, doc)
    return _on_page(state, key, doc)


def selected_gpu(state: WatchState, doc: HeatmapDocument) -> HeatmapGpu | None:
    """The selected GPU as `doc` has it; None when it is not among those shown."""
    return next((gpu for gpu in doc.items if Spot.of(gpu) == state.selected), None)


def _in_editor(state: WatchState, editor: Editor, key: str) -> WatchState:
    if key == "esc":
        return replace(state, editor=None)
    if key == "enter":
        chosen, still_open = editor.applied(state.filter)
        return replace(state, filter=chosen, editor=still_open)
    return replace(state, editor=editor.typed(key))


def _turned(state: WatchState, page: Page) -> WatchState:
    """Another page, from its top; back to the map when it is open already."""
    return replace(state, page="map" if state.page == page else page, offset=0)


def _with_period(state: WatchState, step: int) -> WatchState:
    if step < 0:
        shorter = [period for period in _PERIODS if period < state.period]
        return replace(state, period=shorter[-1] if shorter else state.period)
    longer = [period for period in _PERIODS if period > state.period]
    return replace(state, period=longer[0] if longer else state.period)


_EVERYWHERE: dict[str, Callable[[WatchState], WatchState]] = {
    "q": lambda s: replace(s, has_quit=True),
    "?": lambda s: _turned(s, "help"),
    "w": lambda s: _turned(s, "warnings"),
    " ": lambda s: replace(s, is_paused=not s.is_paused),
    "r": lambda s: replace(s, reads=s.reads + 1),
    "+": lambda s: _with_period(s, 1),
    "-": lambda s: _with_period(s, -1),
}

_VIEW: dict[str, Callable[[WatchState], WatchState]] = {
    "m": lambda s: replace(s, metric=_METRICS[(_METRICS.index(s.metric) + 1) % len(_METRICS)]),
    "M": lambda s: replace(s, metric=_METRICS[_METRICS.index(s.metric) - 1]),
    "s": lambda s: replace(s, sort=_SORTS[(_SORTS.index(s.sort) + 1) % len(_SORTS)]),
    "/": lambda s: replace(s, editor=Editor(s.filter.text, len(s.filter.text))),
    "t": lambda s: replace(s, as_table=not s.as_table),
    "i": lambda s: replace(s, by_mig=not s.by_mig),
    "esc": lambda s: replace(s, selected=None),
}

_NAMES = {
    "h": "left",
    "j": "down",
    "k": "up",
    "l": "right",
    "g": "home",
    "G": "end",
}
_MOVES = ("left", "right", "up", "down", "home", "end", "page-up", "page-down")


def _on_map(state: WatchState, key: str, doc: HeatmapDocument) -> WatchState:
    if key in _VIEW:
        return _VIEW[key](state)
    move = _NAMES.get(key, key)
    if move not in (*_MOVES, "enter"):
        return state
    if selected_gpu(state, doc) is None:
        state = replace(state, selected=_first_look(doc))
    elif move != "enter":
        state = replace(state, selected=_moved(state, move, doc))
    if move == "enter" and state.selected is not None:
        return _turned(state, "gpu")
    return state


def _on_page(state: WatchState, key: str, doc: HeatmapDocument) -> WatchState:
    if key in ("esc", "enter"):
        return _turned(state, state.page)
    move = _NAMES.get(key, key)
    if state.page == "gpu" and move in ("left", "right"):
        if selected_gpu(state, doc) is None:
            return state
        return replace(state, selected=_beside(doc, state.selected, move), offset=0)
    last = state.drawn.last_offset
    steps = {
        "up": -1,
        "down": 1,
        "page-up": -state.drawn.page,
        "page-down": state.drawn.page,
        "home": -state.offset,
        "end": last,
    }
    wanted = min(state.offset, last) + steps.get(move, 0)
    return replace(state, offset=max(0, min(last, wanted)))


def _first_look(doc: HeatmapDocument) -> Spot | None:
    """Where a person looks first: the hottest hot GPU, else the first of the first node."""
    hot = [gpu for gpu in doc.items if gpu.hot]
    if hot:
        return Spot.of(max(hot, key=lambda gpu: gpu.utilization_pct or 0.0))
    return Spot.of(doc.items[0]) if doc.items else None


def _beside(doc: HeatmapDocument, selected: Spot | None, move: str) -> Spot | None:
    """The GPU before or after the selected one, in the document's order."""
    spots = [Spot.of(gpu) for gpu in doc.items]
    if selected not in spots:
        return selected
    place = spots.index(selected) + (1 if move == "right" else -1)
    return spots[max(0, min(len(spots) - 1, place))]


def _moved(state: WatchState, move: str, doc: HeatmapDocument) -> Spot | None:
    """The GPU that `move` leads to from the selected one."""
    spot = state.selected
    if spot is None:
        return None
    rows: dict[str, list[Spot]] = {load.node: [] for load in doc.nodes}
    for gpu in doc.items:
        rows.setdefault(gpu.node, []).append(Spot.of(gpu))
    nodes = [row for row in rows.values() if row]
    y = next(i for i, row in enumerate(nodes) if spot in row)
    x = nodes[y].index(spot)
    per_line, last = state.drawn.per_line, len(nodes) - 1
    match move:
        case "left" if x == 0 and y % per_line:
            return nodes[y - 1][-1]
        case "right" if x == len(nodes[y]) - 1 and (y + 1) % per_line and y < last:
            return nodes[y + 1][0]
        case "left" | "right":
            x += 1 if move == "right" else -1
        case "up":
            y = y - per_line if y >= per_line else y
        case "down":
            # The last line may be shorter than the one above it.
            y = min(y + per_line, last) if y // per_line < last // per_line else y
        case "page-up":
            y -= state.drawn.page
        case "page-down":
            y += state.drawn.page
        case "home":
            y = 0
        case "end":
            y = last
    row = nodes[max(0, min(last, y))]
    return row[max(0, min(len(row) - 1, x))]
