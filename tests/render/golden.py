"""Pictures on file: what a view looked like when a person last approved of it."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def assert_golden(name: str, text: str) -> None:
    """`text` is what tests/golden/NAME holds; with GPUCTL_UPDATE_GOLDEN=1 it is written there.

    Escape characters are shown as a symbol, so that the files can be read and compared.
    """
    path = FOLDER / name
    readable = text.replace("\x1b", "␛")
    if os.environ.get("GPUCTL_UPDATE_GOLDEN") == "1":
        path.write_text(readable, encoding="utf-8", newline="")
        return
    assert path.exists(), (
        f"{path} is missing: run pytest with GPUCTL_UPDATE_GOLDEN=1 and look at it"
    )
    assert readable == path.read_bytes().decode(), f"{name} changed; GPUCTL_UPDATE_GOLDEN=1 accepts"
