"""A Prometheus API whose answers a function of the test gives.

def answer(query: Query) -> Answer:
    return vector(({"gpu": "0"}, 96.0))

with FakePrometheus(answer) as prometheus:
    ... PrometheusSettings(url=prometheus.url)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any

from tests.fakes.http_server import FakeServer, Reply, Request, ServerTls

NOW = 1_750_000_000.0

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Query:
    """One query as the API got it; times are None where the client left them out."""

    request: Request
    text: str
    is_range: bool
    time: float | None = None
    start: float | None = None
    end: float | None = None
    step: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The data of a good answer, and what comes along with it."""

    type: str
    data: Any
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    is_partial: bool | None = None

    def with_warnings(self, *warnings: str) -> Result:
        """The same data with warnings."""
        return replace(self, warnings=warnings)


Answer = Result | Reply


def vector(*series: tuple[Labels, float | str], at: float = NOW) -> Result:
    """An instant vector."""
    data = [{"metric": dict(labels), "value": [at, number(value)]} for labels, value in series]
    return Result("vector", data)


def matrix(*series: tuple[Labels, Sequence[tuple[float, float | str]]]) -> Result:
    """A range of values per series."""
    return Result(
        "matrix",
        [
            {"metric": dict(labels), "values": [[at, number(value)] for at, value in values]}
            for labels, values in series
        ],
    )


def scalar(value: float | str, at: float = NOW) -> Result:
    """A number without labels."""
    return Result("scalar", [at, number(value)])


def error(status: int, kind: str, text: str, **more: Any) -> Reply:
    """A failure in the API's own form."""
    body = json.dumps({"status": "error", "errorType": kind, "error": text})
    return Reply(status, body.encode(), content_type="application/json", **more)


def number(value: float | str) -> str:
    """A value as the API writes it."""
    if isinstance(value, str):
        return value
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value)).removesuffix(".0")


@dataclass
class FakePrometheus:
    """Serves the API below `prefix`. `now` is its clock: the Date header and `at` of results."""

    answer: Callable[[Query], Answer]
    prefix: str = ""
    names: Sequence[str] = ()
    label_values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    version: str | None = "2.53.0"
    now: float = NOW
    tls: ServerTls | None = None
    server: FakeServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = FakeServer(self._reply, tls=self.tls)

    def __enter__(self) -> FakePrometheus:
        self.server.__enter__()
        return self

    def __exit__(self, *failure: Any) -> None:
        self.server.__exit__(*failure)

    @property
    def url(self) -> str:
        """What to configure as the URL."""
        return self.server.url + self.prefix

    @property
    def requests(self) -> list[Request]:
        """Every request so far."""
        return self.server.requests

    @property
    def queries(self) -> list[str]:
        """The expressions asked for so far, sorted: concurrent ones have no order."""
        found = (request.param("query") for request in self.server.requests)
        return sorted(text for text in found if text is not None)

    def _reply(self, request: Request) -> Reply:
        path = request.path.removeprefix(self.prefix + "/api/v1/")
        if path in ("query", "query_range"):
            answer = self.answer(_query(request, is_range=path == "query_range"))
            return answer if isinstance(answer, Reply) else self._json(_good(answer))
        if request.method != "GET":
            return Reply(405, b"method not allowed")
        if path == "status/buildinfo" and self.version is not None:
            return self._json(_wrapped({"version": self.version, "revision": "abc"}))
        if path == "label/__name__/values":
            return self._json(_wrapped(sorted(self.names)))
        label = path.removeprefix("label/").removesuffix("/values")
        if path == f"label/{label}/values":
            return self._json(_wrapped(sorted(self.label_values.get(label, ()))))
        return Reply(404, b"404 page not found")

    def _json(self, document: dict[str, Any]) -> Reply:
        return Reply(
            body=json.dumps(document).encode(),
            content_type="application/json",
            compress=True,
            headers={"Date": formatdate(self.now, usegmt=True)},
        )


def _query(request: Request, *, is_range: bool) -> Query:
    times = {
        name: None if (value := request.param(name)) is None else float(value)
        for name in (("start", "end", "step") if is_range else ("time",))
    }
    return Query(request, request.param("query") or "", is_range, **times)


def _wrapped(data: Any) -> dict[str, Any]:
    return {"status": "success", "data": data}


def _good(result: Result) -> dict[str, Any]:
    document = _wrapped({"resultType": result.type, "result": result.data})
    if result.warnings:
        document["warnings"] = list(result.warnings)
    if result.infos:
        document["infos"] = list(result.infos)
    if result.is_partial is not None:
        document["isPartial"] = result.is_partial
    return document
