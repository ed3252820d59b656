"""Rows as text: aligned columns for people, CSV and names for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Sequence

from gpuctl.render.terminal import cell_width, pad, sanitize, shorten_middle

#: What a person sees where a value is unknown.
MISSING = "--"
GAP = "  "
_NARROWEST = 8  # a name shorter than this tells nothing apart

Cell = str | int | float | None


def plain_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    numeric: Collection[str] = (),
    width: int | None = None,
    ascii_only: bool = False,
) -> str:
    """Columns two blanks apart, headers in capitals, `numeric` ones (by header) to the right.

    None is `--`. When `width` is too narrow, text columns lose their middle, the widest first;
    numbers are never cut. Ends with a newline.
    """
    titles = [header.upper() for header in headers]
    body = [[_cell(value, ascii_only=ascii_only) for value in row] for row in rows]
    to_right = [header in numeric for header in headers]
    columns = list(zip(*([titles, *body]), strict=True))
    widths = [max(map(cell_width, column)) for column in columns]
    if width is not None:
        floors = [
            size if right else min(size, max(_NARROWEST, cell_width(title)))
            for size, right, title in zip(widths, to_right, titles, strict=True)
        ]
        widths = _fit(widths, floors, width - len(GAP) * (len(widths) - 1))
    ellipsis = "~" if ascii_only else "…"
    lines = [
        GAP.join(
            pad(shorten_middle(text, size, ellipsis=ellipsis), size, right=right)
            for text, size, right in zip(line, widths, to_right, strict=True)
        ).rstrip()
        for line in (titles, *body)
    ]
    return "\n".join(lines) + "\n"


def _fit(widths: list[int], floors: list[int], room: int) -> list[int]:
    """`widths` made to fit into `room`, a cell at a time off the widest that may still shrink."""
    fitted = list(widths)
    while sum(fitted) > room:
        able = [i for i, size in enumerate(fitted) if size > floors[i]]
        if not able:
            break
        fitted[max(able, key=lambda i: (fitted[i], i))] -= 1
    return fitted


def _cell(value: Cell, *, ascii_only: bool) -> str:
    if value is None:
        return MISSING
    return sanitize(str(value), ascii_only=ascii_only)


def csv_text(headers: Sequence[str], rows: Iterable[Sequence[Cell | bool]]) -> str:
    """RFC 4180: CRLF, quotes where needed, a header; raw numbers, an empty field for unknown."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(headers)
    writer.writerows([_raw(value) for value in row] for row in rows)
    return buffer.getvalue()


def _raw(value: Cell | bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return sanitize(value) if isinstance(value, str) else str(value)
