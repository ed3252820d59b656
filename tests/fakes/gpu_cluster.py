"""A small GPU cluster behind the fake Prometheus: answers a snapshot's queries.

The real Prometheus is in `tests/real`; this one is for faults that a real one can't be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.fakes.prometheus import NOW, Labels, Query, Result, matrix, vector


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU; `silent` ones had metrics within the hour and have none now."""

    node: str
    gpu: int
    load_pct: float
    used_mib: float = 40_000
    pod: str | None = None
    age_seconds: float = 5
    silent: bool = False

    @property
    def uuid(self) -> str:
        return f"GPU-{self.node}-{self.gpu}"

    @property
    def key(self) -> dict[str, str]:
        return {"UUID": self.uuid, "job": "dcgm", "instance": f"{self.node}:9400"}

    @property
    def user(self) -> dict[str, str]:
        if self.pod is None:
            return {}
        namespace, _, name = self.pod.partition("/")
        return {"exported_namespace": namespace, "exported_pod": name}

    @property
    def identity(self) -> dict[str, str]:
        return {
            **self.key,
            "Hostname": self.node,
            "gpu": str(self.gpu),
            "modelName": "NVIDIA A100-SXM4-80GB",
        }


def two_nodes() -> tuple[Card, ...]:
    """One hot card, one idle, two in between."""
    return (
        Card("gpu-a", 0, 96, 75_000, "prod/llm-0"),
        Card("gpu-a", 1, 20, 16_000, "dev/nb-1"),
        Card("gpu-b", 0, 50, 40_000, "prod/llm-1"),
        Card("gpu-b", 1, 60, 40_000, "prod/llm-2"),
    )


@dataclass(slots=True)
class GpuCluster:
    """Answers by what a query asks for. `now` is the server's clock."""

    cards: Sequence[Card] = field(default_factory=two_nodes)
    now: float = NOW
    total_mib: float = 81_920

    def __call__(self, query: Query) -> Result:
        if query.is_range:
            return self._over_time(query)
        if "unless on" in query.text:
            return self._vector((c.identity, 1) for c in self.cards if c.silent)
        if "time() - max" in query.text:
            return vector(({}, min(c.age_seconds for c in self.cards)), at=self.now)
        live = [c for c in self.cards if not c.silent]
        if "timestamp(" in query.text:
            return self._vector((c.identity | c.user, self.now - c.age_seconds) for c in live)
        if "FB_USED" in query.text:
            return self._vector(row for c in live for row in self._memory(c))
        return self._vector(
            ({"__name__": "DCGM_FI_DEV_GPU_UTIL"} | c.key | c.user, c.load_pct) for c in live
        )

    def _memory(self, card: Card) -> Iterator[tuple[Labels, float]]:
        yield {"__name__": "DCGM_FI_DEV_FB_USED"} | card.key | card.user, card.used_mib
        yield {"__name__": "DCGM_FI_DEV_FB_FREE"} | card.key, self.total_mib - card.used_mib

    def _vector(self, rows: Iterator[tuple[Labels, float]]) -> Result:
        return vector(*rows, at=self.now)

    def _over_time(self, query: Query) -> Result:
        start, end, step = query.start or 0.0, query.end or 0.0, query.step or 1.0
        times = [start + i * step for i in range(round((end - start) / step) + 1)]
        return matrix(
            *(
                ({"UUID": c.uuid}, [(t, c.load_pct) for t in times])
                for c in self.cards
                if not c.silent
            )
        )
