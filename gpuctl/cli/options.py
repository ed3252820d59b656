"""The global options: declared once, accepted before and after every command.

Each level of the command line (`gpuctl`, a group, a command) parses them and adds what it finds,
in order, to one list; `resolve` then reads that list and the environment. So the later one wins
wherever it stands, and no command declares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from gpuctl.errors import UsageError
from gpuctl.render.output import FORMATS, Format, OutputSettings, as_format
from gpuctl.render.terminal import ColorChoice

VIEW_TIMEOUT = timedelta(seconds=60)
ACTION_TIMEOUT = timedelta(minutes=30)
REQUEST_TIMEOUT = timedelta(seconds=10)
DEMO_SCENARIO = "hk-night"

_COLORS: tuple[ColorChoice, ...] = ("auto", "always", "never")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_WIDTHS = range(20, 10_001)


class Flag(NamedTuple):
    """One spelling of a global option: what it sets, and how `--help` and TAB describe it.

    `sets`: the field of GlobalOptions. `value`: what a flag without an argument puts there.
    `choices`: values worth offering on TAB; what is accepted is up to the reader.
    """

    names: tuple[str, ...]
    sets: str
    help: str
    metavar: str | None = None
    value: object = None
    choices: tuple[str, ...] = ()


FLAGS: tuple[Flag, ...] = (
    Flag(("--config",), "config", "configuration file [GPUCTL_CONFIG]", "PATH"),
    Flag(("--context",), "context", "cluster of that file [GPUCTL_CONTEXT]", "CONTEXT"),
    Flag(
        ("--prometheus-url",),
        "prometheus_url",
        "instead of the context's [GPUCTL_PROMETHEUS_URL]",
        "URL",
    ),
    Flag(("--demo",), "demo", "a simulated cluster, not a real one [GPUCTL_DEMO]", value=True),
    Flag(
        ("--demo-scenario",),
        "demo_scenario",
        f"another simulated cluster [default: {DEMO_SCENARIO}]",
        "NAME",
        choices=(DEMO_SCENARIO, "three-full-five-idle", "mig-mixed"),
    ),
    Flag(("--snapshot",), "snapshot", "a saved snapshot, not live data; - is stdin", "FILE"),
    Flag(
        ("--timeout",),
        "timeout",
        "for the whole command [default: 60s views, 30m actions; GPUCTL_TIMEOUT]",
        "DUR",
    ),
    Flag(
        ("--request-timeout",),
        "request_timeout",
        "for one call [default: 10s; GPUCTL_REQUEST_TIMEOUT]",
        "DUR",
    ),
    Flag(
        ("-o", "--output"),
        "output",
        "table, wide, name, csv, json or yaml [GPUCTL_OUTPUT]",
        "FMT",
        choices=FORMATS,
    ),
    Flag(("-q", "--quiet"), "verbosity", "warnings only on stderr", value=-1),
    Flag(("-v", "--verbose"), "verbosity", "more on stderr; -vv for all of it", value=1),
    Flag(
        ("--color",),
        "color",
        "auto, always or never [NO_COLOR, FORCE_COLOR]",
        "WHEN",
        choices=_COLORS,
    ),
    Flag(("--no-color",), "color", "same as --color never", value="never"),
    Flag(("-y", "--yes"), "yes", "answer yes to the question", value=True),
    Flag(
        ("--no-input",),
        "no_input",
        "never ask [default: when stdin is no TTY; GPUCTL_NO_INPUT]",
        value=True,
    ),
    Flag(("--no-pager",), "no_pager", "print long answers at once [GPUCTL_PAGER]", value=True),
    Flag(("--width",), "width", "cells a line [default: the terminal's; COLUMNS]", "N"),
)

#: What one level of the command line found: field and value, in the order of the words.
Given = list[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """The global options of one run: flag over environment over default.

    None means that nobody said anything. `config`, `context` and `prometheus_url` are the flags
    alone: `gpuctl.config.load` knows their variables, the file, and who outranks whom.
    `from_flags` names the fields that the command line set.
    """

    config: str | None = None
    context: str | None = None
    prometheus_url: str | None = None
    demo: bool = False
    demo_scenario: str = DEMO_SCENARIO
    snapshot: str | None = None
    timeout: timedelta | None = None
    request_timeout: timedelta = REQUEST_TIMEOUT
    output: Format = "table"
    quiet: bool = False
    verbose: int = 0
    color: ColorChoice = "auto"
    yes: bool = False
    no_input: bool = False
    no_pager: bool = False
    width: int | None = None
    from_flags: frozenset[str] = frozenset()

    def output_settings(self) -> OutputSettings:
        """What of this the output wants to know."""
        return OutputSettings(
            format=self.output,
            color=self.color,
            width=self.width,
            quiet=self.quiet,
            verbose=self.verbose,
            no_pager=self.no_pager,
        )


def resolve(given: Sequence[tuple[str, object]], environ: Mapping[str, str]) -> GlobalOptions:
    """The options from what the command line gave, in its order, and the environment.

    Raises UsageError that names the option or the variable, and what it accepts.
    """
    values: dict[str, Any] = {}
    for variable, (name, read) in _VARIABLES.items():
        if text := environ.get(variable):
            values[name] = read(variable, text)
    level = 0
    from_flags: set[str] = set()
    for name, value in given:
        if name == "verbosity":
            # -q and -v each take back the other; -vv counts.
            level = -1 if value == -1 else max(level, 0) + 1
            from_flags |= {"quiet", "verbose"}
            continue
        option = "--" + name.replace("_", "-")
        reader = _READERS.get(name) if isinstance(value, str) else None
        values[name] = reader(option, str(value)) if reader else value
        from_flags.add(name)
    if "demo_scenario" in values:
        values["demo"] = True
    return GlobalOptions(
        **values, quiet=level < 0, verbose=max(level, 0), from_flags=frozenset(from_flags)
    )


def requested_format(words: Sequence[str], environ: Mapping[str, str]) -> Format:
    """The format to report a failure in while the command line itself may be what failed.

    A plain look at the words, without any parser: the last `-o` counts, then GPUCTL_OUTPUT.
    """
    asked = environ.get("GPUCTL_OUTPUT", "")
    for i, word in enumerate(words):
        if word == "--":
            break
        if word in ("-o", "--output"):
            asked = words[i + 1] if i + 1 < len(words) else ""
        elif word.startswith("--output="):
            asked = word.partition("=")[2]
        elif word.startswith("-o"):
            asked = word[2:]
    return as_format(asked) or "table"


def _format(option: str, text: str) -> Format:
    chosen = as_format(text)
    if chosen is None:
        raise _not_one_of(option, text, FORMATS)
    return chosen


def _color(option: str, text: str) -> str:
    if text not in _COLORS:
        raise _not_one_of(option, text, _COLORS)
    return text


def _not_one_of(option: str, text: str, choices: Sequence[str]) -> UsageError:
    from difflib import get_close_matches

    near = get_close_matches(text, choices, n=1)
    return UsageError(
        f"{option} does not know '{text}'",
        cause=f"accepted values: {', '.join(choices)}",
        hint=f"did you mean {near[0]}?" if near else None,
    )


def _duration(option: str, text: str) -> timedelta:
    from gpuctl.model.durations import parse_duration

    try:
        value = parse_duration(text)
    except ValueError as exc:
        raise UsageError(f"{option}: {exc}", hint=f"for example {option}=90s") from exc
    if not value:
        raise UsageError(
            f"{option} is 0: no time at all", hint=f"give it some, for example {option}=90s"
        )
    return value


def _truth(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(
        f"{variable} is '{text}', neither yes nor no",
        cause=f"accepted values: {', '.join(_TRUE + _FALSE)}",
        hint=f"unset {variable}, or set it to 1 or 0",
    )


def _width(option: str, text: str) -> int:
    # isdigit() alone takes superscripts too, which int() refuses.
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else -1
    if number not in _WIDTHS:
        raise UsageError(
            f"{option} is '{text}', not a width",
            cause=f"accepted values: whole numbers from {_WIDTHS.start} to {_WIDTHS[-1]}",
            hint=f"for example {option} 120",
        )
    return number


def _filled(option: str, text: str) -> str:
    if not text.strip():
        raise UsageError(f"{option} is empty", hint=f"leave {option} out, or give it a value")
    return text


_READERS: dict[str, Callable[[str, str], Any]] = {
    "config": _filled,
    "context": _filled,
    "prometheus_url": _filled,
    "demo_scenario": _filled,
    "snapshot": _filled,
    "timeout": _duration,
    "request_timeout": _duration,
    "output": _format,
    "color": _color,
    "width": _width,
}

# The others of CLI.md are judged where they matter: COLUMNS, NO_COLOR, FORCE_COLOR and
# GPUCTL_PAGER by the output; GPUCTL_CONFIG, GPUCTL_CONTEXT and GPUCTL_PROMETHEUS_URL by the
# configuration.
_VARIABLES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "GPUCTL_DEMO": ("demo", _truth),
    "GPUCTL_TIMEOUT": ("timeout", _duration),
    "GPUCTL_REQUEST_TIMEOUT": ("request_timeout", _duration),
    "GPUCTL_OUTPUT": ("output", _format),
    "GPUCTL_NO_INPUT": ("no_input", _truth),
}
