"""The HTTP API's JSON, decoded straight into what the rest of gpuctl reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Raw, Struct, ValidationError, field
from msgspec.json import Decoder


class VectorSeries(Struct, frozen=True):
    """One series with its value. `at` is the unix time of the evaluation, not of the sample."""

    metric: dict[str, str]
    value: float
    at: float


class MatrixSeries(Struct, frozen=True):
    """One series with its values over time, as (unix seconds, value)."""

    metric: dict[str, str]
    values: list[tuple[float, float]] = field(default_factory=list)


class _Answer(Struct, frozen=True, kw_only=True):
    """What came along with the series.

    `server_date` is the server's clock by its HTTP header: compare it with one's own to see skew.
    """

    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    server_date: float | None = None
    says_partial: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether some data is missing: a store that is down, a limit that cut the answer.

        Warnings about the expression itself (`PromQL warning: ...`) lose no data.
        """
        return self.says_partial or any(not w.startswith("PromQL ") for w in self.warnings)


class VectorAnswer(_Answer, frozen=True, kw_only=True):
    """The answer to an instant query.

    A scalar is one series without labels. For a range selector (`X[5m]`) `matrix` holds every
    sample at its own time and `series` the newest of each; a string is in `text`.
    `evaluated_at` is the server's time of evaluation, None when nothing tells it.
    """

    series: list[VectorSeries]
    matrix: list[MatrixSeries] = field(default_factory=list)
    text: str | None = None
    evaluated_at: float | None = None


class MatrixAnswer(_Answer, frozen=True, kw_only=True):
    """The answer to a range query."""

    series: list[MatrixSeries]


class BuildInfo(Struct, frozen=True):
    """What the server says that it is; Thanos and others fill in their own versions."""

    version: str = ""
    revision: str = ""


class Envelope(Struct, frozen=True):
    """What every answer of the API is wrapped in; `data` is decoded once its type is known."""

    status: str
    data: Raw = field(default_factory=lambda: Raw(b"null"))
    error_type: str = field(default="", name="errorType")
    error: str = ""
    warnings: tuple[str, ...] | None = None
    infos: tuple[str, ...] | None = None
    is_partial: bool | None = field(default=False, name="isPartial")

    def extras(self) -> dict[str, Any]:
        """The fields that every answer carries on."""
        return {
            "warnings": self.warnings or (),
            "infos": self.infos or (),
            "says_partial": bool(self.is_partial),
        }


class _Typed(Struct, frozen=True):
    type: str = field(name="resultType")
    result: Raw


class _Vector(Struct, frozen=True):
    """Native histograms come as `histogram` without a `value`."""

    metric: dict[str, str]
    value: tuple[float, float] | None = None


class _TextVector(Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str] | None = None


class _TextMatrix(Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]] = field(default_factory=list)


@cache
def _decoder(shape: Any) -> Decoder[Any]:
    """A decoder that also takes numbers from strings, as this API writes them."""
    return Decoder(shape, strict=False)


def envelope(body: bytes) -> Envelope:
    """Raises msgspec.DecodeError (also for the wrong shape)."""
    return _decoder(Envelope).decode(body)  # type: ignore[no-any-return]


def decoded(data: Raw, shape: Any) -> Any:
    """`data` in another shape, such as a list of names."""
    return _decoder(shape).decode(data)


def vector_answer(wrapped: Envelope, server_date: float | None) -> VectorAnswer:
    """The answer to an instant query, whichever type the expression has."""
    typed: _Typed = decoded(wrapped.data, _Typed)
    extras = wrapped.extras() | {"server_date": server_date}
    match typed.type:
        case "vector":
            found = _vector(typed.result)
            series = [VectorSeries(s.metric, s.value[1], s.value[0]) for s in found if s.value]
            extras["infos"] += _left_out(len(found) - len(series))
            at = series[0].at if series else server_date
            return VectorAnswer(series=series, evaluated_at=at, **extras)
        case "matrix":
            matrix = _matrix(typed.result, extras)
            series = [VectorSeries(m.metric, m.values[-1][1], m.values[-1][0]) for m in matrix]
            return VectorAnswer(series=series, matrix=matrix, evaluated_at=server_date, **extras)
        case "scalar":
            when, value = decoded(typed.result, tuple[float, str])
            return VectorAnswer(
                series=[VectorSeries({}, float(value), when)], evaluated_at=when, **extras
            )
        case "string":
            when, text = decoded(typed.result, tuple[float, str])
            return VectorAnswer(series=[], text=text, evaluated_at=when, **extras)
        case other:
            raise ValidationError(f"unknown resultType {other[:40]!r}")


def matrix_answer(wrapped: Envelope, server_date: float | None) -> MatrixAnswer:
    """The answer to a range query."""
    typed: _Typed = decoded(wrapped.data, _Typed)
    if typed.type != "matrix":
        raise ValidationError(f"a range query gave resultType {typed.type[:40]!r}")
    extras = wrapped.extras() | {"server_date": server_date}
    return MatrixAnswer(series=_matrix(typed.result, extras), **extras)


def joined(pieces: Sequence[MatrixAnswer]) -> MatrixAnswer:
    """Answers about consecutive times as one; a series keeps its place and its warnings once."""
    if len(pieces) == 1:
        return pieces[0]
    values: dict[frozenset[tuple[str, str]], MatrixSeries] = {}
    for piece in pieces:
        for series in piece.series:
            known = values.setdefault(
                frozenset(series.metric.items()), MatrixSeries(series.metric, [])
            )
            known.values.extend(series.values)
    return MatrixAnswer(
        series=list(values.values()),
        warnings=tuple(dict.fromkeys(w for piece in pieces for w in piece.warnings)),
        infos=tuple(dict.fromkeys(i for piece in pieces for i in piece.infos)),
        server_date=pieces[-1].server_date,
        says_partial=any(piece.says_partial for piece in pieces),
    )


def _vector(result: Raw) -> list[_Vector]:
    try:
        return decoded(result, list[_Vector])  # type: ignore[no-any-return]
    except ValidationError:
        # msgspec's own reader of numbers does not know "+Inf"; Python's is slower and does.
        slow: list[_TextVector] = decoded(result, list[_TextVector])
        return [
            _Vector(s.metric, (s.value[0], _number(s.value[1])) if s.value else None) for s in slow
        ]


def _matrix(result: Raw, extras: dict[str, Any]) -> list[MatrixSeries]:
    """The series that have numbers; `extras["infos"]` tells of those that have none."""
    try:
        found: list[MatrixSeries] = decoded(result, list[MatrixSeries])
    except ValidationError:
        found = [
            MatrixSeries(s.metric, [(at, _number(text)) for at, text in s.values])
            for s in decoded(result, list[_TextMatrix])
        ]
    series = [s for s in found if s.values]
    extras["infos"] += _left_out(len(found) - len(series))
    return series


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValidationError(f"{text[:40]!r} is not a number") from None


def _left_out(count: int) -> tuple[str, ...]:
    return (f"{count} series hold histograms instead of numbers",) if count else ()
