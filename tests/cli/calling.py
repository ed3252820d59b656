"""Calls the real command line in this process, its streams apart."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuctl.cli.main import main
from gpuctl.clock import FixedClock
from tests.fakes.prometheus import NOW

CLOCK = FixedClock(datetime.fromtimestamp(NOW, UTC))


@dataclass(frozen=True, slots=True)
class Called:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


def call(
    *words: str,
    environ: Mapping[str, str] | None = None,
    stdin: str = "",
    clock: FixedClock = CLOCK,
) -> Called:
    """Run `gpuctl WORDS`. Nothing of the test's own environment or home gets in."""
    out, err = io.StringIO(), io.StringIO()
    code = main(
        list(words),
        environ={"GPUCTL_CONFIG": "/dev/null", "HOME": "/nonexistent", **(environ or {})},
        stdin=io.StringIO(stdin),
        stdout=out,
        stderr=err,
        clock=clock,
    )
    return Called(code, out.getvalue(), err.getvalue())
