"""README.md shows what the tool really prints, and its examples are valid."""

from __future__ import annotations

import json
import re

import pytest

from gpuctl.cli.lazy import COMMANDS
from tests import readme
from tests.cli.calling import call

TEXT = readme.README.read_text()


@pytest.mark.parametrize("command", readme.commands(TEXT))
def test_shown_output_is_what_the_tool_prints(command: str) -> None:
    shown = TEXT.split(f"$ {command}\n", 1)[1].split("```", 1)[0]
    assert shown == readme.output(command), "python -m tests.readme --write"


def test_generated_parts_are_up_to_date() -> None:
    assert readme.regenerated(TEXT) == TEXT, "python -m tests.readme --write"


def test_the_smallest_snapshot_of_the_page_is_one() -> None:
    example = re.search(r"```json\n(\{.*?\n\})\n```", TEXT, re.DOTALL)
    assert example is not None
    called = call("heatmap", "--snapshot", "-", "-o", "json", stdin=example[1])
    assert called.code == 0
    assert json.loads(called.out)["items"][0]["hot"] is True


def test_the_configuration_of_the_page_is_valid() -> None:
    called = call("config", "check", str(readme.ROOT / "tests/data/config/hk.yaml"))
    assert called.code == 0, called.err


def test_every_command_is_mentioned() -> None:
    for name, entry in COMMANDS.items():
        assert entry.hidden or f"gpuctl {name}" in TEXT
