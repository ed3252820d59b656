"""Names and sentences made fit for XML and HTML files."""

from __future__ import annotations

import re
from html import escape

from gpuctl.render.terminal import sanitize

# What XML 1.0 allows in text; a single other character makes the whole file unreadable.
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markup_text(raw: str) -> str:
    """`raw` as text between tags: no control characters, no markup."""
    return escape(_NOT_XML.sub("\ufffd", sanitize(raw)), quote=False)


def attribute(raw: str) -> str:
    """`raw` as the value of an attribute in double quotes."""
    return escape(_NOT_XML.sub("\ufffd", sanitize(raw)), quote=True)
