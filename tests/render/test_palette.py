"""Shades that survive grey, colour blindness and any background."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from gpuctl.render.palette import (
    contrast,
    glyph_scale,
    ink_rgb,
    luminance,
    rgb_of_256,
    shade_glyph,
    shade_rgb,
    shade_sgr,
)

# What xterm and the VGA console show for the backgrounds that are used of the 16 colours.
XTERM = {44: (0, 0, 238), 104: (92, 92, 255), 46: (0, 205, 205), 106: (0, 255, 255)}
VGA = {44: (0, 0, 170), 104: (85, 85, 255), 46: (0, 170, 170), 106: (85, 255, 255)}
YELLOW = {103: (255, 255, 85)}


@pytest.mark.parametrize("light", [False, True])
def test_lightness_rises_with_every_percent(light: bool) -> None:
    steps = [luminance(shade_rgb(p / 100, light_background=light)) for p in range(101)]
    assert all(a < b for a, b in pairwise(steps))
    assert steps[-1] - steps[0] > 0.5


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("dim", [False, True])
def test_lightness_never_falls_with_256_colours(light: bool, dim: bool) -> None:
    shades = [shade_sgr(p, 256, light_background=light, dim=dim) for p in range(101)]
    papers = [int(m.group(1)) for s in shades if (m := re.search(r"48;5;(\d+)m", s))]
    steps = [luminance(rgb_of_256(index)) for index in papers]
    assert len(steps) == 101
    assert all(a <= b for a, b in pairwise(steps))
    assert len(set(papers)) >= 9


@pytest.mark.parametrize("theme", [XTERM | YELLOW, VGA | YELLOW])
def test_lightness_never_falls_with_16_colours(theme: dict[int, tuple[int, int, int]]) -> None:
    shades = [shade_sgr(p, 16) for p in range(101)]
    papers = [int(s.removesuffix("m").rpartition(";")[2]) for s in shades]
    steps = [luminance(theme[paper]) for paper in papers]
    assert all(a <= b for a, b in pairwise(steps))
    assert len(set(papers)) == 5


def test_numbers_can_be_read_on_every_shade() -> None:
    for light in (False, True):
        for percent in range(101):
            paper = shade_rgb(percent / 100, light_background=light)
            assert contrast(ink_rgb(paper), paper) >= 4.5


def test_hottest_shade_stands_out_from_a_white_page() -> None:
    assert contrast(shade_rgb(1, light_background=True), (255, 255, 255)) > contrast(
        shade_rgb(1), (255, 255, 255)
    )


def test_no_colours_means_no_escape_sequence() -> None:
    assert shade_sgr(50, 0) == ""


def test_dimmed_shades_are_grey() -> None:
    papers = re.findall(
        r"48;5;(\d+)m", "".join(shade_sgr(p, 16_777_216, dim=True) for p in (0, 99))
    )
    assert all(int(paper) >= 232 for paper in papers)


@pytest.mark.parametrize("utf8", [False, True])
def test_glyphs_go_from_first_to_last(utf8: bool) -> None:
    scale = glyph_scale(utf8=utf8)
    assert shade_glyph(0, utf8=utf8) == shade_glyph(-3, utf8=utf8) == scale[0]
    assert shade_glyph(1, utf8=utf8) == shade_glyph(7, utf8=utf8) == scale[-1]
    assert utf8 or scale.isascii()
