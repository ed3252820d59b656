"""The fake exporter's scenarios as the past of a real Prometheus."""

from __future__ import annotations

import contextlib
import io
import json
import time
from argparse import Namespace
from pathlib import Path

from tests.tools.fake_exporter import Fleet, cmd_history

SCENARIOS = Path(__file__).parent.parent / "tools" / "scenarios"


def fleet(
    scenario: str | dict[str, object],
    *,
    size: tuple[int, int] | None = None,
    epoch: float | None = None,
) -> Fleet:
    """A fleet by scenario name, or by the scenario itself."""
    if isinstance(scenario, str):
        scenario = json.loads((SCENARIOS / f"{scenario}.json").read_text())
    return Fleet(scenario, epoch or time.time(), size)


def past(
    of: Fleet,
    *,
    minutes: float = 20,
    step_seconds: int = 15,
    end: float | None = None,
    metrics: str | None = None,
    earlier_hours: float = 0,
) -> str:
    """OpenMetrics text of the last `minutes`, and of coarser hours before that."""
    args = Namespace(
        end=end,
        hours=max(earlier_hours, minutes / 60),
        step=60,
        dense_minutes=minutes,
        dense_step=step_seconds,
        metrics=metrics,
    )
    with contextlib.redirect_stdout(io.StringIO()) as text:
        cmd_history(of, args)
    return text.getvalue()
