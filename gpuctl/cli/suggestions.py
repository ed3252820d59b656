"""`gpuctl __complete KIND PREFIX [WORDS...]`: what the completion scripts call for live values.

It answers from files alone, goes past the command line parser, and on any failure says nothing:
a message would end up in the middle of what somebody is typing.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from gpuctl.cli.completion_cache import known_nodes

#: The hidden word that stands in a command's place.
WORD = "__complete"
LONGEST_SECONDS = 0.3
_SAFE = re.compile(r"[A-Za-z0-9._/-]+")


class _TooLate(Exception):  # noqa: N818 - never leaves this module
    """The shell has waited long enough."""


def suggestions(words: Sequence[str], environ: Mapping[str, str], now: float) -> list[str]:
    """The values of `words[0]` (contexts, nodes, gpus) that begin with `words[1]`, sorted.

    The other words are the command line so far: `--config` and `--context` count.
    Empty on any failure. Values with characters that a shell would split or expand are left out.
    """
    kind, prefix, *line = [*words, "", ""][: max(2, len(words))]
    try:
        with _time_limit():
            values = _KINDS[kind](line, environ, now)
            return sorted(
                {value for value in values if value.startswith(prefix) and _SAFE.fullmatch(value)}
            )
    except Exception:  # noqa: BLE001 - whatever it is, TAB must stay silent
        return []


def _contexts(line: Sequence[str], environ: Mapping[str, str], _now: float) -> Iterable[str]:
    from gpuctl.config.edit import context_names
    from gpuctl.config.files import STDIN, find

    config = _value_of("--config", line)
    if STDIN in (config, environ.get("GPUCTL_CONFIG")):
        return ()  # the terminal's own input is not ours to read
    found = find(config, environ)
    return context_names(found[0]) if found else ()


def _nodes(line: Sequence[str], environ: Mapping[str, str], now: float) -> Iterable[str]:
    return (node for node, _ in _known(line, environ, now))


def _gpus(line: Sequence[str], environ: Mapping[str, str], now: float) -> Iterable[str]:
    return (f"{node}/{index}" for node, indices in _known(line, environ, now) for index in indices)


def _known(
    line: Sequence[str], environ: Mapping[str, str], now: float
) -> list[tuple[str, list[str]]]:
    if any(word.startswith(("--demo", "--snapshot")) for word in line):
        return []  # the names that are kept are those of real clusters
    context = _value_of("--context", line) or environ.get("GPUCTL_CONTEXT")
    return known_nodes(context, environ=environ, now=now)


def _value_of(option: str, line: Sequence[str]) -> str | None:
    """The last value that the command line gives to `option`; bash has `=` as a word of its own."""
    value = None
    for i, word in enumerate(line):
        if word == option:
            rest = [following for following in line[i + 1 : i + 3] if following != "="]
            value = rest[0] if rest else None
        elif word.startswith(f"{option}="):
            value = word.partition("=")[2]
    return value


_KINDS: dict[str, Callable[[Sequence[str], Mapping[str, str], float], Iterable[str]]] = {
    "contexts": _contexts,
    "nodes": _nodes,
    "gpus": _gpus,
}


@contextmanager
def _time_limit() -> Iterator[None]:
    """Give up after LONGEST_SECONDS, say on a home folder that no longer answers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _give_up(_signum: int, _frame: FrameType | None) -> None:
    raise _TooLate
