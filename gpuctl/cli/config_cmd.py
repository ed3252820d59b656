"""`gpuctl config`: write, show, check and switch the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuctl.cli.runtime import runtime_of
from gpuctl.errors import ConfigError
from gpuctl.exitcodes import ExitCode
from gpuctl.render.output import Output

if TYPE_CHECKING:
    from gpuctl.config import Settings
    from gpuctl.model.config_documents import ConfigCheckDocument, ConfigContextsDocument
    from gpuctl.model.documents import ConfigDocument

app = typer.Typer(help="write, show and check the configuration", add_completion=False)


# What the commands do, without the command line


def run_init(path: str | None, environ: Mapping[str, str], *, force: bool) -> str:
    """Write the example file, mode 0600; its path. Raises ConfigError.

    `path` is None for the user's own place.
    """
    from gpuctl.config.edit import create_file, replace_config
    from gpuctl.config.example import EXAMPLE
    from gpuctl.config.files import user_file

    own = user_file(environ) if path is None else None
    target = path if own is None else str(own)
    if target is None:
        raise ConfigError(
            "there is no place for a configuration file",
            cause="neither XDG_CONFIG_HOME nor HOME is set",
            hint="name one: gpuctl config init --path /etc/gpuctl/config.yaml",
        )
    try:
        create_file(target, EXAMPLE)
    except ConfigError as error:
        if not force or not isinstance(error.__cause__, FileExistsError):
            raise
        replace_config(target, EXAMPLE, 0o600)
    return target


def run_view(settings: Settings, now: datetime) -> ConfigDocument:
    """The settings in force as a document."""
    from gpuctl.model.documents import ConfigDocument

    return ConfigDocument(
        generated_at=now,
        file=settings.file,
        context=settings.context_name,
        items=settings.values,
    )


def run_use_context(name: str, config: str | None, environ: Mapping[str, str]) -> bool:
    """Make `name` the current context of the file; False when it was. Raises ConfigError."""
    from gpuctl.config.edit import context_names, replace_config, unknown_name, with_current_context
    from gpuctl.config.inspection import require_file

    file = require_file(config, environ)
    known = context_names(file)
    if name not in known:
        raise unknown_name(name, file, known)
    changed = with_current_context(file, name)
    if changed == file.text:
        return False
    replace_config(file.path, changed, 0o600 if file.mode is None else file.mode)
    return True


def run_check(config: str | None, environ: Mapping[str, str], now: datetime) -> ConfigCheckDocument:
    """All faults of the file. Raises ConfigError when it can't be read at all."""
    from gpuctl.config.inspection import check, require_file

    return check(require_file(config, environ), environ, now)


# The command line


@app.command("init")
def init(
    ctx: typer.Context,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="write there; - is stdout")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file that exists")] = False,
) -> ExitCode:
    """Write a commented configuration file to start from.

    It goes to --path, else to --config or GPUCTL_CONFIG, else to
    $XDG_CONFIG_HOME/gpuctl/config.yaml, with mode 0600.

    Examples:
      gpuctl config init
      gpuctl config init --path /etc/gpuctl/config.yaml
    """
    runtime = runtime_of(ctx)
    if path == "-":
        from gpuctl.config.example import EXAMPLE

        runtime.output.text(EXAMPLE)
        return ExitCode.OK
    named = path or runtime.options.config or runtime.environ.get("GPUCTL_CONFIG") or None
    target = run_init(named, runtime.environ, force=force)
    runtime.output.info(f"wrote {target}; edit it, then try: gpuctl config check")
    _show_check(runtime.output, run_check(target, runtime.environ, runtime.clock.now()))
    return ExitCode.OK


@app.command("view")
def view(
    ctx: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", help="say where each value came from")
    ] = False,
) -> ExitCode:
    """Show the settings in force: flag over environment over file over default.

    Secrets are not shown, only the names of their files. -o json, yaml and csv always
    give the origins too.

    Examples:
      gpuctl config view --origin
      gpuctl config view --context hk -o yaml
    """
    from gpuctl.config import load

    runtime = runtime_of(ctx)
    options = runtime.options
    settings = load(
        environ=runtime.environ,
        config=options.config,
        context=options.context,
        prometheus_url=options.prometheus_url,
    )
    for warning in settings.warnings:
        runtime.output.warn(warning)
    document = run_view(settings, runtime.clock.now())
    _show_view(runtime.output, document, origin=origin)
    return ExitCode.OK


@app.command("use-context")
def use_context(
    ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="CONTEXT")]
) -> ExitCode:
    """Make CONTEXT the current one of the configuration file.

    Only the line of current_context changes; comments, order and mode stay.

    Examples:
      gpuctl config use-context hk
      gpuctl --config /etc/gpuctl/config.yaml config use-context hk
    """
    runtime = runtime_of(ctx)
    config = runtime.options.config
    changed = run_use_context(name, config, runtime.environ)
    output = runtime.output
    output.info(f"current context {'is now' if changed else 'was already'} {name}")
    override = runtime.environ.get("GPUCTL_CONTEXT")
    if override and override != name:
        output.warn(f"GPUCTL_CONTEXT={override} outranks the file: unset it to use {name}")
    if output.format in ("json", "yaml", "csv", "name"):
        from gpuctl.config.inspection import contexts

        _show_contexts(output, contexts(config, name, runtime.environ, runtime.clock.now()))
    return ExitCode.OK


@app.command("check")
def check(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="the file in use when left out; - is stdin")
    ] = None,
) -> ExitCode:
    """Check a configuration file: every fault with its line, and what is odd.

    Examples:
      gpuctl config check
      gpuctl config check ./config.yaml -o json

    Exit codes:
      0  valid, maybe with warnings
      2  faults were found
    """
    runtime = runtime_of(ctx)
    config = file if file is not None else runtime.options.config
    document = run_check(config, runtime.environ, runtime.clock.now())
    _show_check(runtime.output, document)
    return ExitCode.OK if document.valid else ExitCode.USAGE


@app.command("contexts")
def list_contexts(ctx: typer.Context) -> ExitCode:
    """List the contexts of the configuration file; * marks the current one.

    Examples:
      gpuctl config contexts
      gpuctl config contexts -o name
    """
    from gpuctl.config.inspection import contexts

    runtime = runtime_of(ctx)
    options = runtime.options
    document = contexts(options.config, options.context, runtime.environ, runtime.clock.now())
    _show_contexts(runtime.output, document)
    if document.file is None:
        runtime.output.info("there is no configuration file: write one with gpuctl config init")
    return ExitCode.OK


# How the answers look


def _show_view(output: Output, document: ConfigDocument, *, origin: bool) -> None:
    items = document.items
    if output.format in ("json", "yaml"):
        output.document(document)
    elif output.format == "csv":
        output.csv(
            ("key", "value", "origin"), [(one.key, _raw(one.value), one.origin) for one in items]
        )
    elif output.format == "name":
        output.names(one.key for one in items)
    elif origin or output.format == "wide":
        output.table(
            ("key", "value", "origin"), [(one.key, _text(one.value), one.origin) for one in items]
        )
    else:
        output.table(("key", "value"), [(one.key, _text(one.value)) for one in items])


def _text(value: Any) -> str | None:
    """A value for a person's eyes; None where nothing is set."""
    match value:
        case None | [] | {}:
            return None
        case list():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{key}={_text(item)}" for key, item in value.items())
        case _:
            return _raw(value)


def _raw(value: Any) -> str | None:
    """A value as one CSV field: text as it is, the rest as JSON."""
    if value is None or isinstance(value, str):
        return value
    import json

    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(number, ensure_ascii=False)


def _show_check(output: Output, document: ConfigCheckDocument) -> None:
    if output.format in ("json", "yaml"):
        output.document(document)
    elif output.format == "csv":
        output.csv(
            ("severity", "line", "message", "hint"),
            [(one.severity, one.line, one.message, one.hint) for one in document.items],
        )
    elif output.format == "name":
        output.names([document.file])
    else:
        lines = [
            f"{document.file}{f':{one.line}' if one.line else ''}: {one.severity}: {one.message}"
            f"{f' ({one.hint})' if one.hint else ''}"
            for one in document.items
        ]
        if document.valid:
            plural = "" if document.contexts == 1 else "s"
            lines.append(f"{document.file}: OK, {document.contexts} context{plural}")
        output.text("\n".join(map(output.safe, lines)))


def _show_contexts(output: Output, document: ConfigContextsDocument) -> None:
    items = document.items
    if output.format in ("json", "yaml"):
        output.document(document)
    elif output.format == "csv":
        output.csv(
            ("name", "current", "cluster", "prometheus_url"),
            [(one.name, one.current, one.cluster, one.prometheus_url) for one in items],
        )
    elif output.format == "name":
        output.names(one.name for one in items)
    elif items:
        output.table(
            ("", "name", "cluster", "prometheus"),
            [
                ("*" if one.current else " ", one.name, one.cluster, one.prometheus_url)
                for one in items
            ],
        )
