"""Measures what the README quotes: `python -m tests.benchmarks [--write]`.

`--write` puts the figures between the marks in README.md.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

from tests.benchmarks import bench_render, snapshot, startup

README = Path(__file__).parents[2] / "README.md"
_BEGIN, _END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"


def main() -> None:
    """Run all of them and print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true", help="update README.md")
    lines = [*_startup(), "", *_snapshots(), "", *_drawing(), "", _machine()]
    print("\n".join(lines))  # noqa: T201 - printing is what this program is for
    if arguments.parse_args().write:
        text = README.read_text()
        before, rest = text.split(_BEGIN)
        _, after = rest.split(_END)
        README.write_text(f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n\n{_END}{after}")


def _startup() -> list[str]:
    rows = [(name, startup.median_ms(words)) for name, words in startup.CASES.items()]
    return [
        "| start-up, median of 15 | ms |",
        "| --- | ---: |",
        *(f"| {name} | {ms:.0f} |" for name, ms in rows),
    ]


def _snapshots() -> list[str]:
    lines = [
        "| GPUs | snapshot, s | curl, same answers, s | ratio | whole `heatmap`, s | its peak, MiB "
        "| `heatmap -o json`, s | its peak, MiB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for nodes, gpus in snapshot.SIZES:
        with snapshot.server(nodes, gpus) as running:
            m = snapshot.measure(running, nodes * gpus)
        lines.append(
            f"| {m.gpus:,} | {m.snapshot_seconds:.2f} | {m.curl_seconds:.2f} | {m.ratio:.1f} "
            f"| {m.view_seconds:.2f} | {m.view_peak_mib:.0f} "
            f"| {m.json_seconds:.2f} | {m.json_peak_mib:.0f} |"
        )
    return lines


def _drawing() -> list[str]:
    return [
        "| drawing 1,250 nodes x 8 GPUs, data at hand, best of 7 | ms |",
        "| --- | ---: |",
        *(
            f"| {name} | {bench_render.best_ms(draw):.0f} |"
            for name, draw in bench_render.views().items()
        ),
    ]


def _machine() -> str:
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}."


if __name__ == "__main__":
    main()
