"""The sample exposition files with their right readings, as tests need them.

The files are copies of real-shaped exporter output; `readings.md` beside them says what each
must be read as.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "dcgm"


@dataclass(frozen=True, slots=True)
class Expected:
    """One line of a table in readings.md. `mig` is `profile/id`, `whole card` or None."""

    node: str
    gpu: int
    mig: str | None
    utilization_pct: float | None
    source: str | None
    used_mib: float | None
    total_mib: float | None
    memory_pct: float | None
    workloads: tuple[str, ...]
    state: str


def files() -> list[str]:
    """Names of the sample files, without their ending."""
    return sorted(path.stem for path in FOLDER.glob("*.prom"))


def text(name: str) -> str:
    """The exposition text of one file."""
    return (FOLDER / f"{name}.prom").read_text()


def kind(name: str) -> str:
    """`scrape` (what /metrics returns) or `stored` (labels as Prometheus keeps them)."""
    return text(name).splitlines()[1].removeprefix("# kind: ").split(";")[0].strip()


def target_labels(name: str) -> dict[str, str]:
    """Labels of the scrape target, where the file states them."""
    _, found, labels = text(name).splitlines()[1].partition("target labels: ")
    return json.loads(labels) if found else {}


def expected(name: str) -> list[Expected]:
    """The table of one file."""
    section = (FOLDER / "readings.md").read_text().split(f"## {name}.prom", 1)[1].split("\n## ")[0]
    return list(_rows(section))


def _rows(section: str) -> Iterator[Expected]:
    for line in section.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "node" or cells[0].startswith("---"):
            continue
        yield Expected(
            node=cells[0],
            gpu=int(cells[1]),
            mig=None if cells[2] == "-" else cells[2],
            utilization_pct=_number(cells[3]),
            source=None if cells[4] == "-" else cells[4],
            used_mib=_number(cells[5]),
            total_mib=_number(cells[6]),
            memory_pct=_number(cells[7]),
            workloads=() if cells[8] == "-" else tuple(cells[8].split(", ")),
            state=cells[9],
        )


def _number(cell: str) -> float | None:
    return None if cell == "-" else float(cell)
