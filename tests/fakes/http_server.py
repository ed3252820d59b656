"""A small HTTP(S) server with scripted answers, broken ones included; it never sleeps.

with FakeServer(lambda request: Reply(body=b"hello")) as server:
    httpx.get(server.url + "/x")
assert server.requests[0].path == "/x"
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """What the server received. `params` are those of the query string and of a form body."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def params(self) -> list[tuple[str, str]]:
        """All parameters, repeated ones as often as they came."""
        found = parse_qsl(self.query, keep_blank_values=True)
        if self.headers.get("content-type") == "application/x-www-form-urlencoded":
            found += parse_qsl(self.body.decode(), keep_blank_values=True)
        return found

    def param(self, name: str) -> str | None:
        """The first value of a parameter."""
        return next((value for key, value in self.params if key == name), None)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server sends.

    `wait_for`: nothing is sent before this event is set (closing the server sets it).
    `body_waits_for`: the head is sent, the body only then.
    `cut_at`: announce the whole body, send so many bytes, close.
    `drop`: close the connection instead of answering.
    `compress`: gzip, when the client accepts it. `chunked`: without a Content-Length.
    `until_close`: neither length nor chunks: the end of the connection ends the body.
    `reason`: the text of the status line, where it is not the usual one.
    `stream`: parts that are sent in chunks as they come, in place of the body; with `cut_stream`
    the connection breaks after the last.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/plain; charset=utf-8"
    compress: bool = False
    chunked: bool = False
    until_close: bool = False
    cut_at: int | None = None
    drop: bool = False
    wait_for: threading.Event | None = None
    body_waits_for: threading.Event | None = None
    reason: str | None = None
    stream: Iterator[bytes] | None = None
    cut_stream: bool = False


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The server's certificate; with `client_ca` clients have to show one that it signed."""

    cert: str
    key: str
    client_ca: str | None = None

    def context(self) -> ssl.SSLContext:
        """The server's side of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.client_ca)
        return context


def script(*replies: Reply) -> Callable[[Request], Reply]:
    """One reply after the other; the last one again and again."""
    left = list(replies)
    lock = threading.Lock()

    def answer(_: Request) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


class FakeServer:
    """Listens on 127.0.0.1 at a free port while it is entered; `requests` is what came."""

    def __init__(
        self, answer: Callable[[Request], Reply] | Reply, *, tls: ServerTls | None = None
    ) -> None:
        self._answer = answer if callable(answer) else script(answer)
        self._tls = tls
        self._events: list[threading.Event] = []
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.failures: list[BaseException] = []
        self._port: int | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._port = int(self._server.server_address[1])
        if self._tls is not None:
            # The handshake is made in the connection's own thread, at its first read.
            self._server.socket = self._tls.context().wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        # The argument is how often it looks whether to stop.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if failure is None and self.failures:
            raise self.failures[0]

    @property
    def port(self) -> int:
        """The port it listens on; known once it was entered."""
        assert self._port is not None
        return self._port

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address with its scheme, without a path."""
        return f"{'https' if self._tls else 'http'}://{self.address}"

    def close(self) -> None:
        """Let every waiting answer go, end every connection and join every thread."""
        if self._server is None:
            return
        with self._lock:
            events, connections = list(self._events), list(self._connections)
        for event in events:
            event.set()
        self._server.shutdown()
        for connection in connections:
            _shut(connection)
        self._server.server_close()
        if self._thread is not None:
            self._thread.join()
        self._server = None

    def reply_to(self, request: Request) -> Reply:
        """Record the request and ask the script."""
        with self._lock:
            self.requests.append(request)
        try:
            return self._answer(request)
        except BaseException as failure:
            self.failures.append(failure)
            raise

    def wait(self, event: threading.Event) -> None:
        """Wait until the test sets the event, or the server closes."""
        with self._lock:
            self._events.append(event)
        event.wait()

    def opened(self, connection: socket.socket) -> None:
        """A client connected."""
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """A client is gone."""
        with self._lock:
            self._connections.discard(connection)


class _Server(ThreadingHTTPServer):
    # Joined at the end: a thread that outlives its test would fail another one.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self.fake.opened(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.fake.closed(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves, or refuses our certificate, is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are written apart, and a client that waits for more would cost 40 ms each.
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, parts.path, parts.query, headers, self.rfile.read(length))
        reply = self.server.fake.reply_to(request)
        if reply.wait_for is not None:
            self.server.fake.wait(reply.wait_for)
        if reply.drop:
            self.close_connection = True
            return
        self._send(reply, accepts_gzip="gzip" in headers.get("accept-encoding", ""))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _serve  # noqa: N815

    def _send(self, reply: Reply, *, accepts_gzip: bool) -> None:
        body = reply.body
        self.send_response_only(reply.status, reply.reason)
        for name, value in _headers(reply, self.date_time_string()):
            self.send_header(name, value)
        if reply.compress and accepts_gzip:
            body = gzip.compress(body, mtime=0)
            self.send_header("Content-Encoding", "gzip")
        if reply.chunked or reply.stream is not None:
            self.send_header("Transfer-Encoding", "chunked")
        elif reply.until_close:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if reply.body_waits_for is not None:
            self.wfile.flush()
            self.server.fake.wait(reply.body_waits_for)
        if reply.cut_at is not None or reply.until_close:
            self.close_connection = True
        if reply.cut_at is not None:
            body = body[: reply.cut_at]
        if self.command != "HEAD":
            self._write(reply, body)

    def _write(self, reply: Reply, body: bytes) -> None:
        if reply.stream is not None:
            self._write_stream(reply.stream, is_cut=reply.cut_stream)
            return
        if not reply.chunked:
            self.wfile.write(body)
            return
        for start in range(0, len(body), 1000):
            part = body[start : start + 1000]
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        if reply.cut_at is None:
            self.wfile.write(b"0\r\n\r\n")

    def _write_stream(self, parts: Iterator[bytes], *, is_cut: bool) -> None:
        for part in parts:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.flush()
        if is_cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def _headers(reply: Reply, date: str) -> Iterable[tuple[str, str]]:
    names = {name.lower() for name in reply.headers}
    if "content-type" not in names:
        yield "Content-Type", reply.content_type
    if "date" not in names:
        yield "Date", date
    yield from reply.headers.items()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
