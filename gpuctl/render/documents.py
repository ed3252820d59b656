"""The JSON and YAML text of a document."""

from __future__ import annotations

import re
from typing import Any, Literal

DocumentFormat = Literal["json", "yaml"]


def encode_document(document: Any, form: DocumentFormat, *, ascii_only: bool = False) -> str:
    """`document` (a msgspec struct or plain values) as text that ends with a newline.

    Keys keep the order of their declaration; a number that is no number is null. `ascii_only`
    escapes other characters, for streams that can't carry them.
    """
    if form == "json":
        return _json(document, ascii_only=ascii_only)
    return _yaml(document, ascii_only=ascii_only)


def _json(document: Any, *, ascii_only: bool) -> str:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    if ascii_only and not text.isascii():
        text = re.sub(r"[^\x00-\x7f]", _escape, text)
    return text + "\n"


def _escape(match: re.Match[str]) -> str:
    # JSON escapes are UTF-16 units: two of them for a character beyond the first plane.
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _yaml(document: Any, *, ascii_only: bool) -> str:
    import msgspec
    import yaml

    # Through JSON on purpose: both formats then hold the same values, null for NaN included.
    plain = msgspec.json.decode(msgspec.json.encode(document))
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(
        plain, Dumper=dumper, sort_keys=False, allow_unicode=not ascii_only, width=100
    )
    return text
