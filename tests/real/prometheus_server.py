"""A real Prometheus for tests: scrapes given pages, or starts with a given past."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.real.programs import free_port, program

_PATIENCE_SECONDS = 30.0


@dataclass(slots=True)
class Pages:
    """An HTTP server whose paths answer with exposition text; pages may change under way."""

    texts: dict[str, str] = field(default_factory=dict)
    port: int = 0

    @contextmanager
    def serving(self) -> Iterator[Pages]:
        texts = self.texts

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = texts.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((body or "").encode())

            def log_message(self, *_: object) -> None:
                """Tests print nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


@dataclass(frozen=True, slots=True)
class Job:
    """One scrape job with a single target."""

    name: str
    port: int
    path: str
    honor_labels: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, object]:
        return {
            "job_name": self.name,
            "honor_labels": self.honor_labels,
            "metrics_path": self.path,
            "static_configs": [
                {"targets": [f"127.0.0.1:{self.port}"], "labels": dict(self.labels)}
            ],
        }


@dataclass(frozen=True, slots=True)
class RealPrometheus:
    """A running server."""

    url: str

    def query(self, expression: str) -> list[dict[str, object]]:
        """Result of an instant query, asked without any code of ours."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=10) as answer:
            result: list[dict[str, object]] = json.load(answer)["data"]["result"]
            return result

    def await_series(self, expression: str, count: int) -> None:
        """Wait until a query has at least `count` series."""
        _await(lambda: len(self.query(expression)) >= count, f"{count} series of {expression}")


@contextmanager
def prometheus(
    folder: Path,
    *,
    jobs: Sequence[Job] = (),
    past: str | None = None,
    scrape_interval: str = "1s",
    rule_files: Sequence[Path] = (),
    flags: Sequence[str] = (),
) -> Iterator[RealPrometheus]:
    """A Prometheus in `folder`. `past` is OpenMetrics text with timestamps to begin with."""
    binary = program("prometheus")
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    if past is not None:
        _backfill(past, folder, data)
    config = folder / "prometheus.json"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
                "rule_files": [str(path) for path in rule_files],
                "scrape_configs": [job.config() for job in jobs],
            }
        )
    )
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--storage.tsdb.retention.time=30d",
                "--log.level=warn",
                *flags,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _await(lambda: _is_ready(f"{url}/-/ready", server), f"Prometheus on {url}")
            yield RealPrometheus(url)
        finally:
            server.terminate()
            server.wait()


def _backfill(past: str, folder: Path, data: Path) -> None:
    text = folder / "past.om"
    text.write_text(past)
    subprocess.run(
        [
            program("promtool"),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "--max-block-duration=168h",
            str(text),
            str(data),
        ],
        check=True,
        capture_output=True,
    )


def _is_ready(url: str, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise AssertionError(f"Prometheus ended with {server.returncode}, see its log")
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def _await(reached: object, what: str) -> None:
    """Poll until a server of this machine has done its part."""
    assert callable(reached)
    end = time.monotonic() + _PATIENCE_SECONDS
    tick = threading.Event()
    while not reached():
        if time.monotonic() > end:
            raise AssertionError(f"waited {_PATIENCE_SECONDS:.0f}s in vain for {what}")
        tick.wait(0.05)
