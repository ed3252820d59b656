"""Documents about the configuration: what is wrong with it, and which contexts it has."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct


class ConfigRemark(Struct, frozen=True, kw_only=True):
    """A problem or a warning. `line` counts from 1; None when it has no place of its own."""

    severity: Literal["error", "warning"]
    line: int | None
    message: str
    hint: str | None


class ConfigCheckDocument(Struct, frozen=True, kw_only=True):
    """`kind: config_check`. Items are ordered by severity, then line; `valid` allows warnings."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["config_check"] = "config_check"
    generated_at: datetime
    file: str
    valid: bool
    contexts: int
    items: tuple[ConfigRemark, ...]


class ConfigContext(Struct, frozen=True, kw_only=True):
    """One context; `prometheus_url` without user info."""

    name: str
    current: bool
    cluster: str | None
    prometheus_url: str | None


class ConfigContextsDocument(Struct, frozen=True, kw_only=True):
    """`kind: config_contexts`. Items are in the order of the file."""

    schema: Literal["gpuctl/v1"] = "gpuctl/v1"
    kind: Literal["config_contexts"] = "config_contexts"
    generated_at: datetime
    file: str | None
    items: tuple[ConfigContext, ...]
