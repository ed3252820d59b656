"""Answers of a Prometheus-compatible API that are no answers: what they mean and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from msgspec import DecodeError

from gpuctl.clients import faults
from gpuctl.clients import prometheus_wire as wire
from gpuctl.clients.credentials import Credentials
from gpuctl.clients.http import Answer
from gpuctl.errors import BackendError

_REFUSED_BY_METHOD = frozenset({403, 404, 405, 501})


def depends_on_method(answer: Answer) -> bool:
    """Whether a proxy that lets only GET through could have given this answer to a POST."""
    return answer.status in _REFUSED_BY_METHOD


@dataclass(frozen=True, slots=True)
class Explainer:
    """Puts one server's failures into words, without its secrets."""

    shown: str
    credentials: Credentials

    def status_error(self, answer: Answer) -> BackendError:
        """What an answer other than 200 means."""
        status = answer.status
        if 300 <= status < 400:
            return self.redirect_error(answer)
        if status in (401, 407, 403):
            return self._denied(answer)
        if status == 429:
            return self._too_many(answer)
        problem = self._problem(answer)
        if problem is not None:
            return self._query_error(answer, problem)
        if status == 404:
            return BackendError(
                f"{self.shown} has no Prometheus API",
                cause="HTTP 404: wrong path or prefix",
                hint="is the URL missing a prefix such as /prometheus? Leave /api/v1 out of it",
            )
        if status == 414:
            return BackendError(
                f"{self.shown} refuses the length of the query",
                cause="a proxy allows only GET, and the query is too long for a URL (HTTP 414)",
                hint="allow POST on /api/v1/query in the proxy",
            )
        if status in (502, 503, 504):
            return self._gateway(answer)
        return BackendError(
            f"{self.shown} answered {_name(status)}",
            cause=self._quoted(answer),
            hint=_tls_port_hint(answer) or "look at its log",
        )

    def redirect_error(self, answer: Answer) -> BackendError:
        """A 3xx that is not followed: nearly always a login page in front."""
        host = _host(answer.headers.get("location", ""))
        where = f"it redirects to {host}" if host else "it redirects to another page"
        return BackendError(
            f"{self.shown}: this is a login page, not Prometheus",
            cause=f"{where} (HTTP {answer.status}); sent: {self.credentials.description}",
            hint="use the address of Prometheus behind the login, or give a token that the proxy "
            "accepts (prometheus.token_file)",
        )

    def body_error(self, answer: Answer, exc: DecodeError | None = None) -> BackendError:
        """A 200 whose body is not what the API answers."""
        if answer.is_html:
            return BackendError(
                f"{self.shown}: this is a login page, not Prometheus",
                cause=f"it answers with a web page (HTML); sent: {self.credentials.description}",
                hint="use the address of Prometheus behind the login or the user interface, or "
                "give a token that the proxy accepts (prometheus.token_file)",
            )
        if not answer.body.strip():
            return faults.cut_off_error(self.shown, f"HTTP {answer.status} with an empty body")
        text = answer.body[:4].lstrip()
        if text.startswith(b"{") and "truncated" in str(exc):
            return faults.cut_off_error(
                self.shown, f"the JSON ends in the middle, after {len(answer.body)} bytes"
            )
        kind = answer.content_type or "no content type"
        if text.startswith(b"{"):
            cause = f"its JSON has another shape: {faults.shortened(str(exc), 120)}"
        else:
            cause = f"it answers {kind}, not JSON: {self._quoted(answer)}"
        return BackendError(
            f"{self.shown} does not answer like Prometheus",
            cause=cause,
            hint="check the URL: it has to be a Prometheus, Thanos, Mimir or VictoriaMetrics API",
        )

    def api_error(self, answer: Answer, problem: wire.Envelope) -> BackendError:
        """`status: error` in a body, with whatever HTTP status it came."""
        return self._query_error(answer, problem)

    def _denied(self, answer: Answer) -> BackendError:
        sent = self.credentials.description
        says = self._quoted(answer)
        tenant = "no org id" in says.lower()
        if tenant:
            hint = "name the tenant: prometheus.headers: {X-Scope-OrgID: ...}"
        elif sent == "no credential":
            hint = "set prometheus.token_file, or prometheus.username and password_file"
        elif answer.status == 403:
            hint = "the credential is known but may not query; ask for read access"
        else:
            hint = "check that the credential is current and meant for this server"
        return BackendError(
            f"{self.shown} denies access ({_name(answer.status)})",
            cause=f"sent: {sent}" + ("" if answer.is_html else f"; it says: {says}"),
            hint=hint,
        )

    def _too_many(self, answer: Answer) -> BackendError:
        return BackendError(
            f"{self.shown} has too many requests (HTTP 429)",
            cause="; ".join(filter(None, (answer.gave_up, f"it says: {self._quoted(answer)}"))),
            hint="wait, or ask less often; other users of the same tenant count too",
        )

    def _gateway(self, answer: Answer) -> BackendError:
        says = "" if answer.is_html else f": {self._quoted(answer)}"
        return BackendError(
            f"{self.shown} is not available ({_name(answer.status)})",
            cause=f"{answer.gave_up or 'the proxy in front has no answer'}{says}",
            hint="check that Prometheus runs behind the proxy; read the cards directly with "
            "--exporter meanwhile",
        )

    def _query_error(self, answer: Answer, problem: wire.Envelope) -> BackendError:
        says = self._shortened(problem.error) or "no reason given"
        kind = problem.error_type or _name(answer.status)
        if kind == "timeout" or (answer.status == 503 and "timeout" in says.lower()):
            return BackendError(
                f"{self.shown} gave up on a query (timeout)",
                cause=f"{says}; {answer.gave_up or 'its own time limit for a query'}",
                hint="ask for fewer series (prometheus.selector) or a shorter time, or install "
                "gpuctl's recording rules",
            )
        if answer.status in (502, 503, 504):
            return BackendError(
                f"{self.shown} is not available ({_name(answer.status)})",
                cause=f"{says}; {answer.gave_up or kind}",
                hint="it may be starting: see its /-/ready page",
            )
        return BackendError(
            f"{self.shown} can't answer a query ({kind})",
            cause=f"it says: {says}",
            hint=_query_hint(says),
        )

    def _problem(self, answer: Answer) -> wire.Envelope | None:
        """The API's own description of an error, when there is one."""
        if answer.is_html:
            return None
        try:
            problem = wire.envelope(answer.body)
        except DecodeError:
            return None
        return problem if problem.error else None

    def _quoted(self, answer: Answer) -> str:
        if answer.is_html:
            return "a web page"
        text = self._shortened(answer.body[:2000].decode(errors="replace"))
        return text or "it gives no reason"

    def _shortened(self, text: str) -> str:
        return faults.shortened(self.credentials.scrub(text))


def _query_hint(says: str) -> str:
    """What to do about the failures of queries that are known by their words."""
    text = says.lower()
    if "many-to-many" in text or "duplicate series" in text:
        return (
            "two series exist for one card: HA replicas without de-duplication, or two exporters "
            "on a node; narrow prometheus.selector to one of them"
        )
    if "too many samples" in text or "err-mimir-max" in text or "limit" in text:
        return "ask for fewer series (prometheus.selector), a shorter --since or a longer --step"
    if "maximum resolution" in text:
        return "use a longer --step or a shorter --since"
    if "parse error" in text or "parse_error" in text or "unexpected" in text:
        return "check prometheus.selector and the metric aliases: they are put into the query"
    return "run the query in the server's own page to see more"


def _tls_port_hint(answer: Answer) -> str | None:
    is_tls_port = b"HTTP request to an HTTPS server" in answer.body[:500]
    return "this port speaks TLS: use https:// in the URL" if is_tls_port else None


def _host(location: str) -> str:
    try:
        return faults.shortened(urlsplit(location).hostname or "", 100)
    except ValueError:
        return ""


def _name(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"
