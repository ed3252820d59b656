"""Reports about a configuration file, as documents: its faults, and its contexts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from gpuctl.config.document import Document, parse
from gpuctl.config.files import SYSTEM_FILE, RawFile, find, locations
from gpuctl.config.problems import ConfigProblems, Problem
from gpuctl.config.resolve import Inputs, chosen_context, resolve
from gpuctl.config.secrets import config_file_warnings, missing_secret_files, secret_file_warnings
from gpuctl.errors import ConfigError
from gpuctl.model.config_documents import (
    ConfigCheckDocument,
    ConfigContext,
    ConfigContextsDocument,
    ConfigRemark,
)
from gpuctl.model.urls import redact_url


def require_file(
    config: str | None, environ: Mapping[str, str], system_file: Path = SYSTEM_FILE
) -> RawFile:
    """The configuration file, read. Raises ConfigError when there is none or it can't be read."""
    found = find(config, environ, system_file)
    if found is None:
        tried = " and ".join(place.path for place in locations(config, environ, system_file))
        raise ConfigError(
            "there is no configuration file",
            cause=f"looked for {tried}",
            hint="write one with: gpuctl config init",
        )
    return found[0]


def check(file: RawFile, environ: Mapping[str, str], now: datetime) -> ConfigCheckDocument:
    """All that is wrong or odd in a file, whatever its current context."""
    try:
        document = parse(file)
    except ConfigProblems as error:
        faults = [_remark(problem, is_error=True) for problem in error.problems]
        return ConfigCheckDocument(
            generated_at=now, file=file.name, valid=False, contexts=0, items=tuple(faults)
        )
    remarks = [_remark(problem, is_error=False) for problem in document.warnings]
    remarks.extend(
        ConfigRemark(severity="warning", line=None, message=text, hint=None)
        for text in (*config_file_warnings(document), *_file_warnings(document, environ))
    )
    remarks.sort(key=lambda remark: remark.line or 0)
    return ConfigCheckDocument(
        generated_at=now,
        file=file.name,
        valid=True,
        contexts=len(document.config.contexts),
        items=tuple(remarks),
    )


def _remark(problem: Problem, *, is_error: bool) -> ConfigRemark:
    return ConfigRemark(
        severity="error" if is_error else "warning",
        line=problem.line,
        message=problem.message,
        hint=problem.hint,
    )


def _file_warnings(document: Document, environ: Mapping[str, str]) -> list[str]:
    """What is wrong with the files that any context names, each said once."""
    # Not the whole environment: a check is about the file, not about what outranks it now.
    home = {key: environ[key] for key in ("HOME",) if key in environ}
    found: dict[str, None] = {}
    for name in document.config.contexts:
        try:
            resolved = resolve(Inputs(home, context=name, document=document))
        except ConfigError as error:
            found[f"contexts.{name}: {error.what}"] = None
            continue
        found.update(dict.fromkeys(missing_secret_files(resolved)))
        found.update(dict.fromkeys(secret_file_warnings(resolved)))
    return list(found)


def contexts(
    config: str | None,
    context: str | None,
    environ: Mapping[str, str],
    now: datetime,
    system_file: Path = SYSTEM_FILE,
) -> ConfigContextsDocument:
    """The contexts of the configuration in force; none without a file."""
    found = find(config, environ, system_file)
    if found is None:
        return ConfigContextsDocument(generated_at=now, file=None, items=())
    document = parse(found[0])
    current, _ = chosen_context(Inputs(environ, context=context, document=document))
    items = tuple(
        ConfigContext(
            name=name,
            current=name == current,
            cluster=settings.cluster,
            prometheus_url=redact_url(settings.prometheus.url) if settings.prometheus.url else None,
        )
        for name, settings in document.config.contexts.items()
    )
    return ConfigContextsDocument(generated_at=now, file=document.file.name, items=items)
