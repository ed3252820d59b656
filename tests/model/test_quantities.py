"""Amounts of memory."""

from __future__ import annotations

import pytest

from gpuctl.model.quantities import memory_words, parse_memory_mib


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("20Gi", 20_480),
        ("512Mi", 512),
        ("1.5Ti", 1_572_864),
        (" 1Gi ", 1_024),
        ("1G", 953.674),
        ("1024Ki", 1),
        ("1048576k", 1000),
    ],
)
def test_units_as_kubernetes_has_them(text: str, mib: float) -> None:
    assert parse_memory_mib(text) == pytest.approx(mib, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("20", "write 20Gi"),
        ("20GB", "not an amount of memory"),
        ("", "not an amount"),
        ("-1Gi", "not an amount"),
        ("0Gi", "not an amount of memory that a GPU could have"),
        ("9999999999999Ti", "that a GPU could have"),
        ("nanGi", "not an amount"),
    ],
)
def test_what_is_no_amount(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_memory_mib(text)


def test_words() -> None:
    assert memory_words(20_480) == "20.0 GiB"
    assert memory_words(512) == "512 MiB"
