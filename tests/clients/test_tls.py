"""TLS: what is trusted, what is shown, and what is said when it does not work."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gpuctl.errors import BackendError, ConfigError
from tests.clients.conftest import Connect
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import FakeServer, Reply, ServerTls
from tests.fakes.prometheus import FakePrometheus, vector


@pytest.fixture(scope="module")
def tls(authority: CertificateAuthority) -> ServerTls:
    pair = authority.issue("server")
    return ServerTls(pair.cert, pair.key)


def says(problem: BackendError) -> str:
    return f"{problem} | {problem.cause} | {problem.hint}"


def test_a_ca_of_ones_own(
    connect: Connect, tls: ServerTls, authority: CertificateAuthority
) -> None:
    with FakePrometheus(lambda _: vector(({}, 1)), tls=tls) as prometheus:
        answer = connect(prometheus.url, ca_file=authority.cert).instant("X")
    assert answer.series[0].value == 1


def test_an_unknown_ca_is_named_as_the_problem(
    connect: Connect, tls: ServerTls, slept: list[float]
) -> None:
    with FakeServer(Reply(), tls=tls) as server, pytest.raises(BackendError) as caught:
        connect(server.url).instant("X")
    assert "no secure connection" in says(caught.value)
    assert "not signed by a CA that is trusted here" in says(caught.value)
    assert "prometheus.ca_file" in says(caught.value)
    assert slept == []


def test_another_ca_does_not_do(connect: Connect, tls: ServerTls, tmp_path: Path) -> None:
    other = CertificateAuthority.make(tmp_path)
    with FakeServer(Reply(), tls=tls) as server, pytest.raises(BackendError, match="secure"):
        connect(server.url, ca_file=other.cert).instant("X")


def test_a_certificate_for_another_host(connect: Connect, authority: CertificateAuthority) -> None:
    pair = authority.issue("elsewhere", "DNS:elsewhere.example")
    with (
        FakeServer(Reply(), tls=ServerTls(pair.cert, pair.key)) as server,
        pytest.raises(BackendError) as caught,
    ):
        connect(server.url, ca_file=authority.cert).instant("X")
    assert "certificate is for another name" in says(caught.value)


def test_skipping_the_check_is_loud(
    connect: Connect, tls: ServerTls, caplog: pytest.LogCaptureFixture
) -> None:
    with FakePrometheus(lambda _: vector(({}, 1)), tls=tls) as prometheus:
        client = connect(prometheus.url, insecure_skip_verify=True)
        assert client.instant("X").series[0].value == 1
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == ["TLS certificates are NOT checked host=127.0.0.1"]


def test_a_client_certificate_opens_the_door(
    connect: Connect, tls: ServerTls, authority: CertificateAuthority
) -> None:
    mutual = ServerTls(tls.cert, tls.key, client_ca=authority.cert)
    me = authority.issue("client")
    with FakePrometheus(lambda _: vector(({}, 1)), tls=mutual) as prometheus:
        client = connect(
            prometheus.url, ca_file=authority.cert, client_cert=me.cert, client_key=me.key
        )
        assert client.instant("X").series[0].value == 1


def test_without_one_the_server_says_no(
    connect: Connect, tls: ServerTls, authority: CertificateAuthority
) -> None:
    mutual = ServerTls(tls.cert, tls.key, client_ca=authority.cert)
    with FakeServer(Reply(), tls=mutual) as server, pytest.raises(BackendError) as caught:
        connect(server.url, ca_file=authority.cert).instant("X")
    assert "client certificate" in says(caught.value)
    assert "prometheus.client_cert" in says(caught.value)


def test_https_to_a_port_without_tls(connect: Connect) -> None:
    with FakeServer(Reply(400, b"what?")) as server, pytest.raises(BackendError) as caught:
        connect(server.url.replace("http", "https")).instant("X")
    assert "does not speak TLS" in says(caught.value)
    assert "http://" in says(caught.value)


@pytest.mark.parametrize(
    ("setting", "text"),
    [("ca_file", "CA file"), ("client_cert", "client certificate")],
)
@pytest.mark.parametrize("content", [None, "not PEM"])
def test_files_that_are_none_are_mistakes_of_the_configuration(
    connect: Connect, tmp_path: Path, setting: str, text: str, content: str | None
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        connect("https://127.0.0.1:1", **{setting: str(path)}).instant("X")
    assert text in caught.value.what
    assert str(path) in caught.value.what
    assert f"prometheus.{setting}" in (caught.value.hint or "")
    assert caught.value.cause


def test_a_key_needs_its_certificate(connect: Connect) -> None:
    with pytest.raises(ConfigError, match="client_key is set, but not client_cert"):
        connect("https://127.0.0.1:1", client_key="/k").instant("X")


def test_from_http_to_https_on_the_same_host(
    connect: Connect, tls: ServerTls, authority: CertificateAuthority
) -> None:
    with FakePrometheus(lambda _: vector(({}, 7)), tls=tls, prefix="/p") as secure:

        def move(request: object) -> Reply:
            return Reply(301, headers={"Location": f"{secure.url}/api/v1/query"})

        with FakeServer(move) as plain:
            client = connect(plain.url + "/p", ca_file=authority.cert)
            values = [client.instant("X").series[0].value for _ in range(2)]
            assert len(plain.requests) == 1  # remembered: credentials go there no more
    assert values == [7, 7]
    assert client.shown_url == secure.url
    assert [request.method for request in secure.requests] == ["POST", "POST"]
