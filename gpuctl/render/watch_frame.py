"""One frame of the live view: a picture or a page of text, and the status line below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from gpuctl.model.durations import format_duration
from gpuctl.model.heatmap import HeatmapDocument
from gpuctl.render.heatmap_lists import address
from gpuctl.render.screen import RESET, Piece, Screen, cut, finished, plain, strong
from gpuctl.render.terminal import cell_width, pad, sanitize
from gpuctl.render.watch_detail import detail_lines
from gpuctl.render.watch_filter import Editor
from gpuctl.render.watch_picture import Look, Picture, live_picture
from gpuctl.render.watch_state import Drawn, WatchState, selected_gpu
from gpuctl.render.watch_text import wrapped

LEAST_WIDTH, LEAST_HEIGHT = 20, 5
# A read that takes this many times as long as the last one, or as the period, is late.
_PATIENCE = 2
_LEAST_PATIENCE_SECONDS = 10.0

_HELP = (
    ("q", "quit"),
    ("arrows, hjkl", "select a GPU; on a page: scroll, and left or right for the next GPU"),
    ("PgUp PgDn", "a screen up or down; Home, End, g, G to the ends"),
    ("Enter", "all about the selected GPU; Esc or Enter back"),
    (
        "/",
        "filter: part of a node's name, or util>90, ns=prod; several must all hold; "
        "empty shows everything",
    ),
    ("s", "sort by spread, name, util, mem in turn"),
    ("m M", "the next or the last metric: util, mem, membw, tensor, temp, power"),
    ("t", "a line per node and scroll, or whatever shows all"),
    ("i", "a line per MIG instance"),
    ("space", "pause and go on"),
    ("r", "read now"),
    ("+ -", "read less or more often"),
    ("w", "warnings in full"),
    ("^L", "draw anew; ^Z to the shell, fg comes back"),
    ("?", "this page"),
)

_GONE = "This GPU is gone from the picture: filtered out, or silent for more than an hour."


@dataclass(frozen=True, slots=True)
class Feed:
    """What was read, and how reading goes. Times are seconds on a clock that only grows.

    `read_at`: when the read behind `doc` began, and `took` how long it was; `failure`: why the
    last read brought nothing; `reading_since`: when the one that runs began.
    """

    doc: HeatmapDocument
    read_at: float
    took: float = 0.0
    failure: str | None = None
    reading_since: float | None = None

    @property
    def stands_still(self) -> bool:
        """Whether there is no new moment to come: a saved snapshot, or a simulated one."""
        return self.doc.source.kind in ("file", "simulation")

    def age_seconds(self, now: float) -> float | None:
        """Age of the newest sample now, never too low; None when it was not known."""
        known = self.doc.metrics_age_seconds
        if known is None or self.stands_still:
            return known
        return known + max(0.0, now - self.read_at)

    def waited_seconds(self, now: float) -> float:
        """How long the running read has taken."""
        return 0.0 if self.reading_since is None else max(0.0, now - self.reading_since)

    def is_late(self, now: float, period_seconds: float) -> bool:
        """Whether the running read takes so long that the picture is no longer of now."""
        usual = _PATIENCE * max(self.took, period_seconds)
        return self.waited_seconds(now) > max(_LEAST_PATIENCE_SECONDS, usual)


@dataclass(frozen=True, slots=True)
class Frame:
    """Lines for the whole screen; `cursor` (line, cell) where something is being typed."""

    lines: list[str]
    cursor: tuple[int, int] | None = None
    drawn: Drawn = field(default_factory=Drawn)


def frame(state: WatchState, feed: Feed, screen: Screen, now: float) -> Frame:
    """What to show on `screen` at `now`: never wider or taller than it."""
    width, height = screen.width or 80, screen.height or 24
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        text = f"needs {LEAST_WIDTH}x{LEAST_HEIGHT} cells; q quits"
        return Frame([cut(plain(text), width).text] if height else [], drawn=state.drawn)
    inner = replace(screen, width=width, height=height - 1)
    is_old = feed.failure is not None or feed.is_late(now, state.period.total_seconds())
    if state.page == "map":
        look = Look(state.metric, state.by_mig, state.wide_cells, state.as_table, is_old)
        aged = changed(feed.doc, metrics_age_seconds=feed.age_seconds(now))
        picture = live_picture(aged, inner, look, state.selected)
        lines, drawn = picture.lines, picture.drawn
        notes = _map_notes(state, feed.doc, picture)
    else:
        lines, drawn = _scrolled(_page(state, feed, inner), inner, state.offset)
        notes = ["Esc back"]
    body = finished(lines, inner)
    body += [""] * (height - 1 - len(body))
    bottom, cursor = _bottom(state, feed, screen, notes, now)
    return Frame([*body, bottom], None if cursor is None else (height - 1, cursor), drawn)


# Pages of text


def _page(state: WatchState, feed: Feed, screen: Screen) -> list[Piece]:
    if state.page == "help":
        return [strong("Keys", screen), *_rows(_HELP, screen)]
    if state.page == "warnings":
        return _warnings(feed, screen)
    gpu = selected_gpu(state, feed.doc)
    return wrapped(_GONE, screen) if gpu is None else detail_lines(feed.doc, gpu, screen)


def _warnings(feed: Feed, screen: Screen) -> list[Piece]:
    texts = [*([feed.failure] if feed.failure else []), *feed.doc.warnings]
    lines = [strong("Warnings" if texts else "No warnings", screen)]
    for text in texts:
        lines += wrapped(text, screen, lead="-", indent="  ")
    return lines


def _rows(rows: Sequence[tuple[str, str]], screen: Screen) -> list[Piece]:
    lines: list[Piece] = []
    for keys, meaning in rows:
        lines += wrapped(meaning, screen, lead=pad(keys, 13), indent=" " * 14)
    return lines


def _scrolled(lines: list[Piece], screen: Screen, offset: int) -> tuple[list[Piece], Drawn]:
    room = screen.height or 24
    last = max(0, len(lines) - room)
    first = min(offset, last)
    return lines[first : first + room], Drawn(page=max(1, room - 1), last_offset=last)


# The bottom line


def _map_notes(state: WatchState, doc: HeatmapDocument, picture: Picture) -> list[str]:
    notes = []
    if picture.shown < picture.nodes:
        last = picture.first + picture.shown
        notes.append(f"nodes {picture.first + 1}-{last} of {picture.nodes}")
    gpu = selected_gpu(state, doc)
    if gpu is not None:
        notes.append(address(gpu.node, gpu.gpu))
    if picture.omits_instances:
        notes.append("i: MIG")
    return notes


def _bottom(
    state: WatchState, feed: Feed, screen: Screen, notes: Sequence[str], now: float
) -> tuple[str, int | None]:
    """The status line or the filter's, in reverse video, and the cursor's cell in it."""
    width = screen.width or 80
    if state.editor is not None:
        text, cursor = _editor_line(state.editor, screen, width)
    else:
        text, cursor = _status(state, feed, screen, notes, now), None
    return f"\x1b[7m{pad(text, width)}{RESET}", cursor


def _editor_line(editor: Editor, screen: Screen, width: int) -> tuple[str, int]:
    """`/text`, scrolled so that the cursor is seen; what is wrong with it stands behind it."""
    before, after = screen.name(editor.text[: editor.at]), screen.name(editor.text[editor.at :])
    room = width - 2
    if editor.error is not None:
        room = max(8, width // 3)
    while cell_width(before) > room:
        before = before[1:]
    shown = cut(plain(before + after), room).text
    line = f"/{shown}"
    if editor.error is not None:
        line += f"  {screen.name(editor.error)}"
    elif width >= cell_width(line) + 30:
        line = pad(line, width - 28) + "  Enter applies, Esc cancels"
    return cut(plain(line), width).text, 1 + cell_width(before)


def _status(state: WatchState, feed: Feed, screen: Screen, notes: Sequence[str], now: float) -> str:
    """The parts that fit, in their order; those that matter least go first."""
    parts = _parts(state, feed, notes, now)
    width = screen.width or 80
    while len(parts) > 1 and _length(parts) > width:
        parts.remove(max(parts, key=lambda part: part.rank))
    text = "  ".join(screen.name(part.text) for part in parts)
    return cut(plain(text), width).text


@dataclass(frozen=True, slots=True)
class _Part:
    """`rank`: 0 stays to the end."""

    rank: int
    text: str


def _length(parts: Sequence[_Part]) -> int:
    return sum(cell_width(sanitize(part.text)) for part in parts) + 2 * (len(parts) - 1)


def _parts(state: WatchState, feed: Feed, notes: Sequence[str], now: float) -> list[_Part]:
    trouble = _trouble(state, feed, now)
    parts = [_Part(0, trouble)] if trouble else []
    if state.is_paused:
        parts.append(_Part(0, "PAUSED"))
    elif feed.stands_still:
        parts.append(_Part(6, "stands still"))
    elif not trouble:
        parts.append(_Part(4, f"every {format_duration(state.period)}"))
    parts += [_Part(2, note) for note in notes]
    if state.filter.text:
        parts.append(_Part(1, f"filter {state.filter.text}"))
    parts += [_Part(5, f"sort {state.sort}"), _Part(5, f"metric {state.metric}")]
    if feed.doc.warnings:
        count = len(feed.doc.warnings)
        parts.append(_Part(3, f"{count} {'warning' if count == 1 else 'warnings'} (w)"))
    return [*parts, _Part(3, "? keys"), _Part(5, "q quit")]


def _trouble(state: WatchState, feed: Feed, now: float) -> str | None:
    """Why the picture is not of now, and how old it is to the second."""
    if feed.failure is not None:
        reason = feed.failure
    elif feed.is_late(now, state.period.total_seconds()):
        reason = f"no answer for {feed.waited_seconds(now):.0f}s"
    else:
        return None
    age = feed.age_seconds(now)
    return f"{'' if age is None else f'age {age:.0f}s: '}{reason}"
