"""Small documents: a failure, the version, the merged configuration."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct


class ErrorDocument(Struct, frozen=True, kw_only=True):
    """`kind: error`, printed on stdout by `-o json` and `-o yaml` when nothing else was."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["error"] = "error"
    generated_at: datetime
    error: str
    cause: str | None
    hint: str | None
    exit_code: int
    exit_name: str


class VersionDocument(Struct, frozen=True, kw_only=True):
    """`kind: version`."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["version"] = "version"
    version: str
    python: str
    platform: str


class ConfigValue(Struct, frozen=True, kw_only=True):
    """One setting: dotted key, its value in plain types, and where it came from."""

    key: str
    value: Any
    origin: str


class ConfigDocument(Struct, frozen=True, kw_only=True):
    """`kind: config_view`. Secrets are never in it, only the names of their files."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["config_view"] = "config_view"
    generated_at: datetime
    file: str | None
    context: str | None
    items: tuple[ConfigValue, ...]
