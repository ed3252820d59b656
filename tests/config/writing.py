"""Configuration files for the tests, and settings read from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuctl.config import Flag, Settings, load
from gpuctl.config.problems import ConfigProblems


def write(folder: Path, text: str | bytes, name: str = "config.yaml", mode: int = 0o600) -> Path:
    """A configuration file in `folder`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def load_text(
    folder: Path,
    text: str | bytes,
    *,
    environ: Mapping[str, str] | None = None,
    context: str | None = None,
    prometheus_url: str | None = None,
    flags: Mapping[str, Flag] | None = None,
) -> Settings:
    """The settings that `text` gives as a named file."""
    return load(
        environ=environ or {},
        config=str(write(folder, text)),
        context=context,
        prometheus_url=prometheus_url,
        flags=flags,
        system_file=folder / "absent.yaml",
    )


def faults(folder: Path, text: str | bytes) -> list[tuple[int | None, str]]:
    """Line and text (with advice) of every fault of `text`."""
    with pytest.raises(ConfigProblems) as failure:
        load_text(folder, text)
    return [
        (problem.line, f"{problem.message} {problem.hint or ''}")
        for problem in failure.value.problems
    ]


def origins(settings: Settings) -> dict[str, str]:
    """Key -> origin, file names cut to their last part."""
    return {
        value.key: value.origin.replace(str(settings.file), "FILE") for value in settings.values
    }


def shown(settings: Settings) -> dict[str, object]:
    """Key -> value as `config view` has it."""
    return {value.key: value.value for value in settings.values}
