"""Recorded exchanges with a real API server of v1.36 (tests/data/kubernetes)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
_FOLDER = Path(__file__).parent.parent / "data" / "kubernetes"


def recorded(name: str) -> dict[str, Any]:
    """One exchange: `request` and `response`, or the `events` of a watch."""
    found: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text())
    return found
