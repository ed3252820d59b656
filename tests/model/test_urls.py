"""URLs lose their secrets before anybody sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.model.urls import has_user_info, redact_url, url_problem


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/prom", "https://host/prom"),
        ("https://me:s3cret@host:9090/prom?x=1", "https://host:9090/prom?x=1"),
        ("https://s3cret@host", "https://host"),
        ("https://me:s3c@ret@host/a@b", "https://host/a@b"),
        ("//me:s3cret@host", "//host"),
        ("me:s3cret@host:9090", "host:9090"),
        ("http://me:s3cret@host:notaport/", "http://host:notaport/"),
        ("https://me:s3c/ret@host/a", "https://host/a"),
        ("https://host:9090/a@b", "https://host:9090/a@b"),
        ("http://host/?token=s3cret&a=b", "http://host/?token=***&a=b"),
        ("http://host/?X-Amz-Signature=s3cret#f", "http://host/?X-Amz-Signature=***#f"),
        ("http://[::1]:9090/x", "http://[::1]:9090/x"),
        ("", ""),
        ("not a url", "not a url"),
    ],
)
def test_shows_no_secret(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert "s3c" not in redact_url(url)


@given(st.text(alphabet="abcDEF019-._~!$&'()*+,;=:%@", min_size=1, max_size=20))
def test_a_password_never_survives(password: str) -> None:
    marked = f"zq{password}qz"
    assert "zq" not in redact_url(f"https://user:{marked}@host.example/prom")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("https://prom.example/prefix", None),
        ("http://localhost:9090", None),
        ("http://[::1]:9090", None),
        ("HTTPS://prom.example", None),
        ("https://me:pw@prom.example", None),
        ("prom.example:9090", "must start with http:// or https://"),
        ("ftp://prom.example", "must start with http:// or https://"),
        ("http://", "has no host"),
        ("http://host:port", "port is not a number"),
        ("http://host:99999", "port is not a number"),
        ("http://[::1", "host is malformed"),
        ("http://host/a b", "blanks or control characters"),
        ("http://host/\x1b[31m", "blanks or control characters"),
        ("http://host:0", "port 0"),
    ],
)
def test_says_why_a_url_is_no_good(url: str, complaint: str | None) -> None:
    problem = url_problem(url)
    if complaint is None:
        assert problem is None
    else:
        assert problem is not None
        assert complaint in problem


def test_a_problem_never_quotes_the_password() -> None:
    for url in ("ftp://me:s3cret@host", "http://me:s3cret@host:port", "http://me:s3/cret@host"):
        assert "s3cret" not in (url_problem(url) or "")


def test_sees_user_info() -> None:
    assert has_user_info("https://me:pw@host")
    assert not has_user_info("https://host/a@b")
