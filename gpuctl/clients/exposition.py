"""The text format that exporters and Pushgateways print, parsed fast.

prometheus_client's own parser needs several seconds for the page of a large Pushgateway; here a
block of labels is taken apart once and remembered, since every family of a card repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuctl.model.sample import Sample

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
_HEAD = re.compile(rf"({_NAME})?[ \t]*(?:\{{((?:[^\"{{}}]++|\"(?:[^\"\\]++|\\.)*+\")*+)\}})?")
_ITEM = re.compile(
    rf"[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|{_QUOTED})[ \t]*(?:=[ \t]*{_QUOTED})?[ \t]*(?:,|\Z)"
)
_VALUE = re.compile(r"[+-]?(?:[0-9.][0-9.eE+-]*|inf(?:inity)?|nan)\Z", re.IGNORECASE)
_TIME = re.compile(r"-?[0-9]+\Z")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


class NotExpositionError(ValueError):
    """A line that is not in the format. `line` counts from 1, `text` is the line."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line} is not in the exposition format")
        self.line = line
        self.text = text


def parse(text: str) -> Iterator[Sample]:
    """Every sample of a page, in its order; timestamps become unix seconds.

    Samples of one card share one mapping of labels. A label with an empty value is kept as it
    stands. Comments, HELP, TYPE and OpenMetrics' `# EOF` are skipped, exemplars too. Raises
    NotExpositionError at the first line that is none of these.
    """
    known: dict[str, tuple[str | None, Mapping[str, str]]] = {}
    for number, line in enumerate(_lines(text), 1):
        if not line or line[0] == "#":
            continue
        sample = _sample(line, known)
        if sample is None:
            raise NotExpositionError(number, line)
        yield sample


def _lines(text: str) -> Iterator[str]:
    """The lines without surrounding blanks; only a line feed ends one, others may be in values."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        yield text[start:end].strip(" \t\r")
        start = end + 1


def _sample(line: str, known: dict[str, tuple[str | None, Mapping[str, str]]]) -> Sample | None:
    """One line; None when it is not a sample."""
    opening, closing = line.find("{"), line.rfind("}")
    if 0 < opening < closing:
        # Blocks are remembered whole, so that a known one needs no second look.
        name, block = line[:opening].rstrip(" \t"), line[opening + 1 : closing]
        found = known.get(block)
        if found is not None and found[0] is None and name.isidentifier() and name.isascii():
            return _with_value(name, found[1], line[closing + 1 :])
    head = _HEAD.match(line)
    if head is None or head.end() == 0:
        return None
    bare, block = head[1], head[2] or ""
    found = _labels(block)
    if found is None:
        return None
    quoted, labels = found
    if (bare is None) == (quoted is None):
        return None  # no name at all, or two
    if bare is not None and "{" not in block and "}" not in block:
        known[block] = found
    rest = line[head.end() :]
    if head[2] is None and line[head.end() - 1] not in " \t":
        return None  # such as `name-5`
    return _with_value(bare or quoted or "", labels, rest)


def _with_value(name: str, labels: Mapping[str, str], rest: str) -> Sample | None:
    """The sample from what follows its labels: a value, perhaps a time, perhaps an exemplar."""
    words = rest.partition(" # ")[0].split()
    if not 1 <= len(words) <= 2 or not _VALUE.match(words[0]):
        return None
    try:
        value = float(words[0])
    except ValueError:
        return None
    if len(words) == 1:
        return Sample(name, labels, value)
    if not _TIME.match(words[1]):
        return None
    return Sample(name, labels, value, int(words[1]) / 1000)


def _labels(block: str) -> tuple[str | None, Mapping[str, str]] | None:
    """A block's quoted metric name (Prometheus 3 writes names with dots so) and its labels."""
    name: str | None = None
    labels: dict[str, str] = {}
    at, end = 0, len(block.rstrip(" \t"))
    while at < end:
        item = _ITEM.match(block, at)
        if item is None:
            return None
        at = item.end()
        label, quoted, value = item.groups()
        if value is not None:
            labels[label if label is not None else _unescaped(quoted)] = _unescaped(value)
        elif quoted is not None and name is None and not labels:
            name = _unescaped(quoted)
        else:
            return None
    return name, labels


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[0]), text)
