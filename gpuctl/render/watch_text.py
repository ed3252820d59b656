"""Text that is wrapped to the screen, for the pages of the live view."""

from __future__ import annotations

from gpuctl.render.screen import Piece, Screen, flow, plain, strong


def wrapped(
    text: str, screen: Screen, *, lead: str = "", indent: str = "", is_strong: bool = False
) -> list[Piece]:
    """`text`, made safe, in lines that fit; `lead` before the first, `indent` before the others."""
    style = strong if is_strong else (lambda word, _: plain(word))
    words = [style(word, screen) for word in screen.name(text).split(" ") if word]
    return flow([*([plain(lead)] if lead else []), *words], screen.width, gap=" ", indent=indent)
