"""Logs for operators on stderr: `LEVEL message key=value`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from gpuctl.render.output import Output
from gpuctl.render.terminal import sanitize

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class KeyValueFormatter(logging.Formatter):
    """The level, the event, and what the call passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        parts = [record.levelname, sanitize(record.getMessage())]
        parts += [
            f"{key}={_quoted(value)}" for key, value in vars(record).items() if key not in _STANDARD
        ]
        line = " ".join(parts)
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def _quoted(value: object) -> str:
    text = sanitize(str(value))
    if text and not any(ch in ' "=' for ch in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class OutputHandler(logging.Handler):
    """Hands each line to the Output, which alone writes to stderr."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self.setFormatter(KeyValueFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self._output.complain(self.format(record) + "\n")


@contextmanager
def logging_to(output: Output) -> Iterator[None]:
    """Within, gpuctl logs warnings, INFO with -v, DEBUG with -vv; libraries only warnings.

    Libraries stay quiet on purpose: httpx and urllib3 would log URLs with all their parts.
    """
    handler = OutputHandler(output)
    root, own = logging.getLogger(), logging.getLogger("gpuctl")
    before = own.level
    root.addHandler(handler)
    own.setLevel(_LEVELS[min(output.verbose, 2)])
    try:
        yield
    finally:
        own.setLevel(before)
        root.removeHandler(handler)
