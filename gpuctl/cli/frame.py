"""Commands and groups that know the global options, `-h`, and our own help text.

`adopt` turns a plain function or a `typer.Typer` into one of them, so that a command's module
needs to know nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from gpuctl import __version__
from gpuctl.cli.options import FLAGS, Flag
from gpuctl.cli.runtime import Invocation, Runtime

HELP_NAMES = ("-h", "--help")


class TextRequested(Exception):  # noqa: N818 - not a failure
    """`--help` or `--version`: the text is the whole answer, nothing else runs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class GlobalOption(TyperOption):
    """All flags that set one field of GlobalOptions; their values go to the Invocation.

    One parameter for the field, not for the flag: the parser keeps the order of the words within
    one destination only, and `--color always --no-color` must end without colour.
    """

    def __init__(self, name: str, flags: tuple[Flag, ...]) -> None:
        super().__init__(param_decls=[name], multiple=True, expose_value=False, hidden=True)
        self.field = name
        self.flags = flags

    def add_to_parser(self, parser: Any, ctx: Any) -> None:
        for flag in self.flags:
            parser.add_option(
                obj=self,
                opts=list(flag.names),
                dest=f"global {self.field}",
                action="append" if flag.metavar else "append_const",
                const=flag.value,
            )

    def handle_parse_result(
        self, ctx: Any, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if isinstance(ctx.obj, Invocation):
            values = opts.get(f"global {self.field}", ())
            ctx.obj.given.extend((self.field, value) for value in values)
        return None, args


class TextOption(TyperOption):
    """A flag that prints a text and ends: `--help`, `--version`."""

    def __init__(
        self, names: tuple[str, ...], text: Callable[[Any], str], description: str
    ) -> None:
        super().__init__(
            param_decls=list(names),
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help=description,
        )
        self._text = text

    def handle_parse_result(
        self, ctx: Any, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if opts.get(str(self.name)) and not ctx.resilient_parsing:
            raise TextRequested(self._text(ctx))
        return None, args


def global_params() -> list[TyperOption]:
    """The global options as parameters, one per field."""
    names = dict.fromkeys(flag.sets for flag in FLAGS)
    return [
        GlobalOption(name, tuple(flag for flag in FLAGS if flag.sets == name)) for name in names
    ]


def _help_of(ctx: Any) -> str:
    from gpuctl.cli.help import help_text

    return help_text(ctx)


def has_optional_value(param: Any) -> bool:
    """Whether an option may stand alone: its metavar is `[LIKE THIS]`.

    Alone it means its `show_default`, which must then be a text.
    """
    return (
        param.param_type_name == "option"
        and (param.metavar or "").startswith("[")
        and isinstance(param.show_default, str)
    )


def with_optional_values(params: Iterable[Any], args: Sequence[str]) -> list[str]:
    """`args` with the default written out after each option that stands alone but need not.

    The parser itself knows only options with a value and options without one.
    """
    alone = {
        name: param.show_default
        for param in params
        if has_optional_value(param)
        for name in param.opts
    }
    words: list[str] = []
    for i, word in enumerate(args):
        if word == "--":
            return [*words, *args[i:]]
        following = args[i + 1] if i + 1 < len(args) else "--"
        if word in alone and following.startswith("-"):
            words.append(f"{word}={alone[word]}")
        else:
            words.append(word)
    return words


class FrameCommand(TyperCommand):
    """A command whose function finds its Runtime in `ctx.obj`."""

    def __init__(self, name: str | None, **attrs: Any) -> None:
        attrs["add_help_option"] = False  # typer's own would write to sys.stdout
        super().__init__(name, **attrs)
        self.params += global_params()
        self.params.append(TextOption(HELP_NAMES, _help_of, "show this text"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_optional_values(self.params, args))

    def invoke(self, ctx: Any) -> Any:
        if isinstance(ctx.obj, Invocation):
            ctx.obj = ctx.obj.start()
        if self.hidden or not isinstance(ctx.obj, Runtime):
            return super().invoke(ctx)
        from gpuctl.cli.logs import logging_to

        with logging_to(ctx.obj.output):
            return super().invoke(ctx)

    def get_help(self, ctx: Any) -> str:
        return _help_of(ctx)


class FrameGroup(TyperGroup):
    """A group of commands; called alone it prints its help."""

    def __init__(self, *, name: str | None = None, **attrs: Any) -> None:
        attrs["add_help_option"] = False
        attrs["no_args_is_help"] = False
        attrs["invoke_without_command"] = True
        attrs["suggest_commands"] = False  # the outermost frame suggests, in its own words
        super().__init__(name=name, **attrs)
        self.params += global_params()
        self.params.append(TextOption(HELP_NAMES, _help_of, "show this text"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if not ctx._protected_args and not ctx.resilient_parsing and self.callback is None:
            raise TextRequested(_help_of(ctx))
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            from gpuctl.cli.usage import no_such_command

            raise no_such_command(args[0], ctx)
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: Any) -> str:
        return _help_of(ctx)


class RootGroup(FrameGroup):
    """`gpuctl` itself, which also knows `--version`."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.params.append(
            TextOption(("--version",), lambda _ctx: f"gpuctl {__version__}", "show the version")
        )


def adopt(name: str, thing: Callable[..., Any] | typer.Typer, help_line: str) -> Any:
    """The command or group `name` made of a function or a `typer.Typer`.

    `help_line` is its purpose where its docstring doesn't say one.
    """
    if isinstance(thing, typer.Typer):
        app = _framed(thing)
    else:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=FrameCommand)(thing)
    # typer.Typer collapses a lone command into its parent, which a group must not do.
    command: Any = (
        typer.main.get_group(app) if isinstance(thing, typer.Typer) else typer.main.get_command(app)
    )
    command.name = name
    if not command.help:
        command.help = help_line
    return command


def _framed(app: typer.Typer) -> typer.Typer:
    """`app` with our classes for all that it holds, whatever its module asked for."""
    app.info.cls = FrameGroup
    app.rich_markup_mode = None
    for command in app.registered_commands:
        command.cls = FrameCommand
    for group in app.registered_groups:
        group.cls = FrameGroup
        if group.typer_instance is not None:
            _framed(group.typer_instance)
    return app
