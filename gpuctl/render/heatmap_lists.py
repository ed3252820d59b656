"""The lists beside the cells: which GPUs are hot, lost and idle, since when, and who is on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu
from gpuctl.render.heatmap_frame import short_duration
from gpuctl.render.screen import Piece, Screen, plain, strong
from gpuctl.render.terminal import cell_width

_LABEL = 6  # cells of "hot   "
_MOST_HOT = 20  # lines of the hot list where the height is free
_MOST_OTHER = 8  # and of each other list
_LONGEST_ADDRESS = 40


@dataclass(frozen=True, slots=True)
class HotSpot:
    """One hot GPU or MIG instance (`instance` is then `PROFILE#ID`), names as they came."""

    node: str
    gpu: int | None
    instance: str | None
    utilization_pct: float | None
    hot_for_seconds: float | None
    hot_for_capped: bool
    workloads: tuple[str, ...]

    @property
    def address(self) -> str:
        """`NODE/GPU`, with the instance where it is one."""
        card = address(self.node, self.gpu)
        return f"{card} {self.instance}" if self.instance else card

    @property
    def since(self) -> str:
        """For how long: `47m`, `>=3h` when the history that was asked for ends there."""
        if self.hot_for_seconds is None:
            return ""
        return (">=" if self.hot_for_capped else "") + short_duration(self.hot_for_seconds)


def address(node: str, gpu: int | None) -> str:
    """`NODE/GPU`, the way commands name a GPU."""
    return f"{node}/{'?' if gpu is None else gpu}"


def hot_spots(doc: HeatmapDocument) -> list[HotSpot]:
    """All hot GPUs and MIG instances, the most loaded first."""
    spots = [
        HotSpot(
            gpu.node,
            gpu.gpu,
            None,
            gpu.utilization_pct,
            gpu.hot_for_seconds,
            gpu.hot_for_capped,
            gpu.workloads,
        )
        for gpu in doc.items
        if gpu.hot
    ]
    spots += [
        HotSpot(
            gpu.node,
            gpu.gpu,
            f"{part.profile}#{part.id}",
            part.utilization_pct,
            part.hot_for_seconds,
            part.hot_for_capped,
            part.workloads,
        )
        for gpu in doc.items
        for part in gpu.mig
        if part.hot
    ]
    return sorted(spots, key=lambda s: (-(s.utilization_pct or 0), s.node, s.gpu or 0))


def side_lines(
    doc: HeatmapDocument, screen: Screen, width: int | None, most: int | None
) -> list[Piece]:
    """The lists in at most `most` lines of `width` cells; None: no limit.

    Where they don't fit, each list is cut and says how many it leaves out, the hot list last.
    """
    if most is not None and most <= 0:
        return []
    room = None if width is None else max(12, width - _LABEL)
    hot = hot_spots(doc)
    lost = grouped([gpu for gpu in doc.items if gpu.state is GpuState.LOST], screen)
    idle = grouped([gpu for gpu in doc.items if gpu.idle], screen)
    if room is None:
        limits: tuple[int | None, int | None, int | None] = (None, None, None)
    else:
        limits = _shares(len(hot), bool(lost), bool(idle), most)
    lines = _labelled("hot", _hot_lines(hot, screen, room, limits[0]) or ["none"], screen)
    spare = _spare(limits[0], lines)
    more = _labelled("lost", _packed(lost, room, limits[1]), screen)
    spare += _spare(limits[1], more)
    room_for_idle = limits[2]
    if room_for_idle is not None and most is not None:
        room_for_idle = min(_MOST_OTHER, room_for_idle + spare)
    return [*lines, *more, *_labelled("idle", _packed(idle, room, room_for_idle), screen)]


def _shares(hot: int, lost: bool, idle: bool, most: int | None) -> tuple[int, int, int]:
    """Lines for the hot, lost and idle lists."""
    if most is None:
        return _MOST_HOT, _MOST_OTHER, _MOST_OTHER
    wishes = [max(1, hot), int(lost), int(idle)]
    shares = [1, 0, 0]
    for index in (1, 2):
        if sum(shares) < most:
            shares[index] = wishes[index]
    shares[0] = min(wishes[0], max(1, most - shares[1] - shares[2]))
    left = most - sum(shares)
    if lost and left > 1:
        shares[1] = min(_MOST_OTHER, shares[1] + left // 2)
    if idle:
        shares[2] = max(0, min(_MOST_OTHER, most - shares[0] - shares[1]))
    return shares[0], shares[1], shares[2]


def _spare(limit: int | None, lines: Sequence[Piece]) -> int:
    return 0 if limit is None else max(0, limit - len(lines))


def _labelled(label: str, lines: Sequence[str], screen: Screen) -> list[Piece]:
    labelled = []
    for number, line in enumerate(lines):
        lead = strong(label.ljust(_LABEL), screen) if number == 0 else plain(" " * _LABEL)
        labelled.append(Piece(lead.text + line, lead.cells + cell_width(line)))
    return labelled


def _hot_lines(
    spots: Sequence[HotSpot], screen: Screen, room: int | None, most: int | None
) -> list[str]:
    """A line for each hot spot; the last one counts those that are left out."""
    if most is None or len(spots) <= most:
        shown, rest = list(spots), 0
    else:
        shown = list(spots[: max(1, most - 1)])
        rest = len(spots) - len(shown)
    if most == 1 and rest:
        return [_hot_line(shown[0], 0, screen, room, and_more=f"+{rest:,} more")]
    longest = _LONGEST_ADDRESS if room is None else max(12, min(_LONGEST_ADDRESS, room // 2))
    names = [screen.shortened(screen.name(spot.address), longest) for spot in shown]
    cells = max((cell_width(name) for name in names), default=0)
    lines = [_hot_line(spot, cells, screen, room) for spot in shown]
    return [*lines, f"and {rest:,} more"] if rest else lines


def _hot_line(
    spot: HotSpot, cells: int, screen: Screen, room: int | None, *, and_more: str | None = None
) -> str:
    load = "--" if spot.utilization_pct is None else f"{spot.utilization_pct:.0f}"
    facts = f"{load:>3} %  {spot.since:>5}"
    if room is None:
        name = screen.name(spot.address)
        return f"{name}  {facts}  {_who(spot.workloads, screen, None)}"
    if and_more:
        # The only line there is: every blank counts.
        tail = " ".join(f"{load} % {spot.since} {and_more}".split())
        left = max(8, room - len(tail) - 1)
        return f"{screen.shortened(screen.name(spot.address), left)} {tail}"
    name = screen.shortened(screen.name(spot.address), cells)
    lead = f"{name}{' ' * (cells - cell_width(name))}  {facts}"
    left = room - cell_width(lead) - 2
    return f"{lead}  {_who(spot.workloads, screen, left)}".rstrip() if left >= 8 else lead


def _who(workloads: Sequence[str], screen: Screen, room: int | None) -> str:
    """As many workloads as fit into `room`, the rest counted."""
    if not workloads:
        return screen.shortened("no workload known", room or 0)
    names = [screen.name(workload) for workload in workloads]
    if room is None:
        return ", ".join(names)
    shown = names
    for count in range(len(names), 0, -1):
        rest = len(names) - count
        more = f" and {rest} more" if rest else ""
        shown = names[:count]
        if cell_width(", ".join(shown)) + len(more) <= room:
            return ", ".join(shown) + more
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    if len(more) + 8 > room:
        more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return screen.shortened(names[0], max(1, room - len(more))) + more


def grouped(gpus: Sequence[HeatmapGpu], screen: Screen) -> list[tuple[str, int]]:
    """GPUs by node as `NODE/0-2,5 3-7 %` (lost ones with what is known), with their number."""
    nodes: dict[str, list[HeatmapGpu]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    return [(_group(node, own, screen), len(own)) for node, own in nodes.items()]


def _group(node: str, gpus: Sequence[HeatmapGpu], screen: Screen) -> str:
    name = screen.shortened(screen.name(node), 24)
    text = f"{name}/{_ranges([gpu.gpu for gpu in gpus])}"
    xids = sorted({gpu.xid for gpu in gpus if gpu.xid})
    if gpus[0].state is GpuState.LOST:
        return f"{text} XID {','.join(map(str, xids))}" if xids else text
    loads = [gpu.utilization_pct for gpu in gpus if gpu.utilization_pct is not None]
    if not loads:
        return text
    low, high = f"{min(loads):.0f}", f"{max(loads):.0f}"
    return f"{text} {low if low == high else f'{low}-{high}'} %"


def _ranges(indices: Sequence[int | None]) -> str:
    """`0-2,5`; `?` for a GPU without an index."""
    known = sorted({index for index in indices if index is not None})
    runs: list[tuple[int, int]] = []
    for index in known:
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return ",".join([*parts, *["?"] * (None in indices)])


def _packed(groups: Sequence[tuple[str, int]], room: int | None, most: int | None) -> list[str]:
    """Groups in lines of `room` cells, at most `most`; the GPUs that are left out are counted."""
    if room is None:
        return [text for text, _ in groups]
    if most is not None and most <= 0:
        return []
    lines: list[list[str]] = [[]]
    counts: list[list[int]] = [[]]
    used = 0
    for text, count in groups:
        cells = cell_width(text)
        if lines[-1] and used + 2 + cells > room:
            if len(lines) == most:
                break
            lines.append([])
            counts.append([])
            used = 0
        used += cells + (2 if lines[-1] else 0)
        lines[-1].append(text)
        counts[-1].append(count)
    rest = sum(count for _, count in groups) - sum(map(sum, counts))
    while rest and len(lines[-1]) > 1 and _width(lines[-1]) + len(_more(rest)) > room:
        lines[-1].pop()
        rest += counts[-1].pop()
    shown = ["; ".join(line) for line in lines if line]
    if rest and _width(lines[-1]) + len(_more(rest)) > room:
        # A single group that leaves no room: the count matters more than one node's name.
        shown[-1] = _more(rest + sum(counts[-1])).lstrip("; ").removeprefix("and ")
    elif rest:
        shown[-1] += _more(rest)
    return [line if cell_width(line) <= room else line[:room] for line in shown]


def _width(line: Sequence[str]) -> int:
    return sum(map(cell_width, line)) + 2 * (len(line) - 1)


def _more(rest: int) -> str:
    return f"; and {rest:,} more"
