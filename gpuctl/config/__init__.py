"""Contexts and settings: which file, which cluster, what is in force and why.

`load` is what commands call. Importing this package loads neither YAML nor the settings' structs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuctl.config.files import SYSTEM_FILE
from gpuctl.config.flags import Flag

if TYPE_CHECKING:
    from gpuctl.config.document import Document
    from gpuctl.config.resolve import Resolved
    from gpuctl.model.config_file import LoopSettings, NotifySettings
    from gpuctl.model.documents import ConfigValue
    from gpuctl.model.policy import Policy
    from gpuctl.model.settings import ContextSettings

__all__ = ["SYSTEM_FILE", "Flag", "Settings", "load"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.

    `file` is None when there is no configuration, `context_name` when no context was chosen;
    the sections then hold their defaults. File names in them are complete. `values` has every
    setting with its origin and without secrets, for `config view`. `warnings` are for stderr.
    """

    file: str | None
    context_name: str | None
    context: ContextSettings
    policy: Policy
    notify: NotifySettings
    loop: LoopSettings
    values: tuple[ConfigValue, ...]
    warnings: tuple[str, ...]
    available_contexts: tuple[str, ...]


def load(
    *,
    environ: Mapping[str, str],
    config: str | None = None,
    context: str | None = None,
    prometheus_url: str | None = None,
    flags: Mapping[str, Flag] | None = None,
    system_file: Path = SYSTEM_FILE,
) -> Settings:
    """Find, read, check and resolve: flag > environment > file > default.

    `config`, `context` and `prometheus_url` are the global options, None when not given. `flags`
    gives other settings by the keys of `config view`, e.g.
    `{"policy.limits.metrics_max_age": Flag("--max-age", timedelta(minutes=5))}`.

    Raises ConfigError for a file that is missing though named, unreadable or wrong (with every
    fault and its line), and UsageError for an unknown context or a wrong option.
    """
    from gpuctl.config.document import parse
    from gpuctl.config.files import find
    from gpuctl.config.resolve import Inputs, resolve

    found = find(config, environ, system_file)
    document, location = (parse(found[0]), found[1]) if found else (None, None)
    given = dict(flags or {})
    if prometheus_url is not None:
        given["prometheus.url"] = Flag("--prometheus-url", prometheus_url)
    resolved = resolve(Inputs(environ, given, context, document, location))
    return Settings(
        file=document.file.name if document else None,
        context_name=resolved.context_name,
        context=resolved.context,
        policy=resolved.policy,
        notify=resolved.notify,
        loop=resolved.loop,
        values=resolved.values,
        warnings=tuple(_warnings(resolved, document)),
        available_contexts=tuple(document.config.contexts) if document else (),
    )


def _warnings(resolved: Resolved, document: Document | None) -> list[str]:
    """What to say about the settings in force. Raises ConfigError for an impossible pair."""
    from gpuctl.config.findings import context_findings, policy_findings
    from gpuctl.config.secrets import config_file_warnings, secret_file_warnings
    from gpuctl.errors import ConfigError, UsageError

    origins = {value.key: value.origin for value in resolved.values}
    warnings: list[str] = []
    for finding in (*context_findings(resolved.context), *policy_findings(resolved.policy)):
        sources = list(dict.fromkeys(origins.get(key, "default") for key in finding.keys))
        sources = [source for source in sources if source != "default"]
        place = f" [{', '.join(sources)}]" if sources else ""
        if finding.fatal:
            # The file alone was fine, so an option or a variable made the contradiction.
            kind = UsageError if any(one.startswith("flag ") for one in sources) else ConfigError
            raise kind(f"{finding.message}{place}", hint=finding.hint)
        advice = f": {finding.hint}" if finding.hint else ""
        warnings.append(f"{finding.message}{place}{advice}")
    warnings.extend(secret_file_warnings(resolved))
    if document is not None:
        warnings.extend(config_file_warnings(document))
    if resolved.context_name is None and document is not None and document.config.contexts:
        names = ", ".join(sorted(document.config.contexts))
        warnings.append(
            f"no context is chosen: use --context, or gpuctl config use-context with one of {names}"
        )
    return warnings
