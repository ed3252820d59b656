"""What holds for every picture, whatever the cluster, the names and the screen."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuctl.model.gpu import GpuState
from gpuctl.model.heatmap import HeatmapDocument, HeatmapGpu
from gpuctl.render.heatmap import heatmap_lines
from gpuctl.render.heatmap_rows import heatmap_names, heatmap_rows
from gpuctl.render.history import history_lines
from gpuctl.render.picture import html, html_history, svg, svg_history
from gpuctl.render.screen import Screen
from gpuctl.render.terminal import cell_width
from tests.render.builders import a_cluster, a_gpu, a_heatmap, a_history, an_instance, the_night

SGR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    "<script>alert(1)</script>",
    "a\"b'c & <d>",
    "two\nlines\ttab",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\u202egnp.exe",
    "\ufffe\udc80\x00",
    "香港-机房-很长的名字-node-0001",
    "é́́ combining",
    "",
    "]]>",
)

names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
percents = st.one_of(st.none(), st.floats(0, 100))


@st.composite
def gpus(draw: st.DrawFn) -> HeatmapGpu:
    state = draw(st.sampled_from(list(GpuState)))
    mig = [
        an_instance(
            number, draw(names), draw(percents), workloads=draw(st.lists(names, max_size=2))
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    return a_gpu(
        draw(names),
        draw(st.one_of(st.none(), st.integers(0, 15))),
        draw(percents),
        draw(st.one_of(st.none(), st.floats(0, 81_920))),
        state=state,
        workloads=draw(st.lists(names, max_size=3)),
        mig=mig,
        power_w=draw(st.one_of(st.none(), st.floats(0, 1_500))),
    )


heatmaps = st.builds(
    lambda items, context, simulated: a_heatmap(
        *items, context=context, simulated=simulated, warnings=tuple(context or ())
    ),
    st.lists(gpus(), max_size=12),
    st.one_of(st.none(), names),
    st.booleans(),
)
screens = st.builds(
    Screen,
    width=st.one_of(st.none(), st.integers(1, 200)),
    height=st.one_of(st.none(), st.integers(1, 60)),
    color_level=st.sampled_from([0, 16, 256, 16_777_216]),
    utf8=st.booleans(),
    light_background=st.booleans(),
)
metrics = st.sampled_from(["util", "mem", "membw", "tensor", "temp", "power"])


def assert_fits(lines: list[str], screen: Screen) -> None:
    for line in lines:
        text = SGR.sub("", line)
        assert not any(unicodedata.category(ch) in ("Cc", "Cs") for ch in text), repr(line)
        assert "\u202e" not in text
        assert screen.utf8 or text.isascii(), repr(line)
        assert screen.color_level or line == text
        if screen.width is not None:
            assert cell_width(text) <= screen.width, repr(text)
    if screen.width is not None and screen.height is not None:
        assert len(lines) <= screen.height


@settings(max_examples=150, deadline=None)
@given(heatmaps, screens, metrics, st.booleans(), st.booleans(), st.booleans())
def test_heatmap_fits_every_screen(
    doc: HeatmapDocument, screen: Screen, metric: str, by_mig: bool, wide: bool, dim: bool
) -> None:
    lines = heatmap_lines(
        doc,
        screen,
        metric=metric,  # type: ignore[arg-type]
        by_mig=by_mig,
        wide_cells=wide,
        dim=dim,
    )
    assert_fits(lines, screen)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 12), st.integers(0, 200), screens)
def test_history_fits_every_screen(rows: int, steps: int, screen: Screen) -> None:
    assert_fits(history_lines(a_history(rows, steps), screen), screen)


@settings(max_examples=100, deadline=None)
@given(
    nodes=st.integers(1, 300),
    cards=st.integers(1, 10),
    width=st.integers(40, 200),
    height=st.one_of(st.none(), st.integers(10, 60)),
    by_mig=st.booleans(),
    level=st.sampled_from([0, 256]),
)
def test_every_gpu_is_drawn_or_counted(
    nodes: int, cards: int, width: int, height: int | None, by_mig: bool, level: int
) -> None:
    doc = a_cluster(nodes, cards, name="n{}")
    lines = heatmap_lines(doc, Screen(width, height, level), by_mig=by_mig)
    text = SGR.sub("", " \n".join(lines))
    drawn = set(re.findall(r"\bn\d+\b(?!/)", text))
    rest = re.search(r"and ([\d,]+) more nodes? \(([\d,]+) GPUs?\)", " ".join(text.split()))
    left_nodes, left_gpus = (
        (int(part.replace(",", "")) for part in rest.groups()) if rest else (0, 0)
    )
    assert len(drawn) + left_nodes == nodes
    assert len(drawn) * cards + left_gpus == nodes * cards
    total = nodes * cards
    if height is None or height >= 16:
        assert f"{total:,} {'GPU' if total == 1 else 'GPUs'}: hot" in " ".join(text.split())


def _hostile_heatmap() -> HeatmapDocument:
    items = [
        a_gpu(
            name,
            number,
            95,
            workloads=HOSTILE,
            model=name,
            mig=[an_instance(1, name, 96, workloads=HOSTILE)],
        )
        for number, name in enumerate(HOSTILE)
    ]
    return a_heatmap(*items, context=HOSTILE[0], cluster=HOSTILE[1], warnings=HOSTILE)


class Tags(HTMLParser):
    """Collects the names of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


def test_hostile_names_stay_text_in_svg() -> None:
    root = ET.fromstring(svg(_hostile_heatmap()))  # noqa: S314 - our own text
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "rect", "text", "g", "title"}
    assert any("<script>" in (element.text or "") for element in root.iter())


def test_hostile_names_stay_text_in_html() -> None:
    page = html(_hostile_heatmap())
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.seen
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314 - well formed besides


@settings(max_examples=60, deadline=None)
@given(heatmaps, metrics)
def test_files_parse_whatever_the_names(doc: HeatmapDocument, metric: str) -> None:
    ET.fromstring(svg(doc, metric=metric))  # type: ignore[arg-type]  # noqa: S314
    page = html(doc, metric=metric)  # type: ignore[arg-type]
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314


@pytest.mark.parametrize(("rows", "steps"), [(0, 0), (1, 1), (5, 30), (3, 1_000), (250, 5)])
def test_history_files_parse(rows: int, steps: int) -> None:
    doc = a_history(rows, steps, context=HOSTILE[0], warnings=HOSTILE)
    ET.fromstring(svg_history(doc))  # noqa: S314
    page = html_history(doc)
    ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))  # noqa: S314


def test_rows_and_names_are_complete_at_any_size() -> None:
    doc = a_cluster(300, 8)
    headers, rows = heatmap_rows(doc)
    assert len(rows) == len(heatmap_names(doc)) == 2_400
    assert all(len(row) == len(headers) for row in rows)


def test_by_mig_adds_a_row_for_each_instance_and_keeps_cards_apart() -> None:
    headers, rows = heatmap_rows(the_night(), by_mig=True)
    mig_id = headers.index("mig_id")
    assert len(rows) == 32 + 3
    assert [row[mig_id] for row in rows if row[mig_id] is not None] == [1, 2, 9]
