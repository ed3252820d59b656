"""A failure as text for people and as a document for programs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gpuctl.errors import GpuctlError
from gpuctl.exitcodes import ExitCode
from gpuctl.render.terminal import sanitize

if TYPE_CHECKING:
    from gpuctl.model.documents import ErrorDocument


def error_text(error: GpuctlError) -> str:
    """The three parts: what happened, why, what to do. Unknown parts are left out."""
    lines = [f"error: {_one_line(error.what)}"]
    if error.cause:
        lines.append(f"  cause: {_one_line(error.cause)}")
    lines.extend(f"  - {_one_line(detail)}" for detail in error.details)
    if error.hint:
        lines.append(f"  try:   {_one_line(error.hint)}")
    return "\n".join(lines) + "\n"


def error_document(error: GpuctlError, at: datetime) -> ErrorDocument:
    """`kind: error`, with the same words as the text."""
    from gpuctl.model.documents import ErrorDocument

    code = ExitCode(error.exit_code)
    cause = error.cause or "; ".join(error.details)
    return ErrorDocument(
        generated_at=at,
        error=_one_line(error.what),
        cause=_one_line(cause) if cause else None,
        hint=_one_line(error.hint) if error.hint else None,
        exit_code=int(code),
        exit_name=code.name,
    )


def _one_line(text: str) -> str:
    """Servers answer with pages and tabs; an error stays on its line."""
    return " ".join(sanitize(text).split())
