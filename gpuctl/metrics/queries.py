"""The PromQL behind a snapshot: at most six queries, whatever the number of nodes.

Labels are aggregated away on the server where nothing is lost by it, `max by` being right for
all forms in which a shared GPU is exported. Each figure keeps what names its device and its
scrape target; who the device belongs to and where it stands comes once, with the newest time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpuctl.metrics import names as n
from gpuctl.metrics.labels import (
    DEVICE_LABELS,
    IDENTITY_LABELS,
    SOURCE_LABELS,
    WORKLOAD_LABELS,
    LabelRules,
)
from gpuctl.metrics.names import MetricNames

SEEN_WITHIN = "1h"
INTERVAL_MARK = "gpuctl_samples_per_hour"

_DETAIL_FAMILIES = (n.TEMPERATURE, n.POWER, n.MEMORY_COPY, n.DRAM_ACTIVE, n.TENSOR)


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries for one site: its metric names, its labels, its selector."""

    names: MetricNames
    rules: LabelRules
    selector: str | None = None

    def presence(self) -> str:
        """Per series of a device: all its labels, and the unix time of its newest sample."""
        families = (n.UTILIZATION, n.ENGINE_ACTIVE, n.MEMORY_USED, n.XID)
        # `or` and not a regular expression: timestamp() drops the metric name, and two names
        # with the same labels would then be an error.
        each = " or ".join(
            f"timestamp({self._one(name)})" for name in self.names.of_families(*families)
        )
        return f"max by ({self._by(self._identity(), self._users())}) ({each})"

    def utilization(self) -> str:
        """Utilization and engine activity of every device, shares of pods included."""
        busy = self._many(self.names.of_families(n.UTILIZATION))
        engine = self._many(self.names.of_families(n.ENGINE_ACTIVE))
        return " or ".join(
            (
                f"max by (__name__, {self._by(self._source(), self._users())}) ({busy})",
                _part("engine", f"max by (__name__, {self._by(self._source())}) ({engine})"),
            )
        )

    def figures(self, *, details: bool) -> str:
        """Memory, the last XID and, with `details`, temperature, power and activity."""
        used = self._many(self.names.of_families(n.MEMORY_USED))
        plain = self.names.of_families(
            n.MEMORY_FREE,
            n.MEMORY_RESERVED,
            n.MEMORY_TOTAL,
            *(_DETAIL_FAMILIES if details else ()),
        )
        xid = self._many(self.names.of_families(n.XID))
        by_source = self._by(self._source())
        return " or ".join(
            (
                f"max by (__name__, {self._by(self._source(), self._users())}) ({used})",
                _part("plain", f"max by (__name__, {by_source}) ({self._many(plain)})"),
                _part("xid", f"max by (__name__, {by_source}) ({xid} > 0)"),
            )
        )

    def silent(self) -> str:
        """Devices that had a utilization within the hour and have none now.

        One more sample carries the median number of samples an hour per series, from which the
        scrape interval follows.
        """
        busy = self._many(self._utilization_names())
        uuid = ", ".join(self.rules.names("cluster", "uuid"))
        counts = " or ".join(
            f"count_over_time({self._one(name)}[{SEEN_WITHIN}])"
            for name in self._utilization_names()
        )
        return (
            f"max by ({self._by(self._identity())}) "
            f"(last_over_time({busy}[{SEEN_WITHIN}]) unless on ({uuid}) {busy}) "
            f'or label_replace(quantile(0.5, {counts}), "{INTERVAL_MARK}", "1", "", "")'
        )

    def utilization_over_time(
        self, present: frozenset[str], *, ratio_scale: float = 1.0, uuids: Iterable[str] = ()
    ) -> str:
        """Percent of utilization per device, corrupt samples dropped, pods aggregated away.

        `present`: metric names that the site has. `ratio_scale`: what turns the site's
        DCGM_FI_DEV_GPU_UTIL_RATIO into percent.
        """
        chosen = [name for name in self._utilization_names() if name in present]
        only = self._uuid_matchers(uuids)
        return " or ".join(
            self._percent(name, matcher, ratio_scale) for name in chosen for matcher in only
        )

    def _percent(self, name: str, matcher: str, ratio_scale: float) -> str:
        by = self._by(self.rules.names(*DEVICE_LABELS))
        if self.names.family_of[name] == n.ENGINE_ACTIVE:
            series = self._one(name, matcher)
            return f"clamp_max(100 * max by ({by}) ({series} >= 0 < 2), 100)"
        whole = ", ".join(f'{label}=""' for label in self.rules.names("mig_id"))
        series = self._one(name, ", ".join(filter(None, (whole, matcher))))
        if name in n.RATIO_NAMED_UTILIZATION and ratio_scale != 1:
            return f"{ratio_scale:g} * max by ({by}) ({series} >= 0 <= 1)"
        return f"max by ({by}) ({series} >= 0 <= 100)"

    def figure_over_time(self, families: Iterable[str]) -> str:
        """Raw values of some families per device, the name kept."""
        series = self._many(self.names.of_families(*families))
        return f"max by (__name__, {self._by(self.rules.names(*DEVICE_LABELS))}) ({series})"

    def raw(self, uuid: str) -> str:
        """Every series we know of one card, with all labels."""
        known = self._many(self.names.of_families(*n.FAMILIES))
        matchers = self._uuid_matchers([uuid])
        return " or ".join(f"{known[:-1]}, {matcher}}}" for matcher in matchers)

    # -- parts --------------------------------------------------------------------------------

    def _utilization_names(self) -> tuple[str, ...]:
        return self.names.of_families(n.UTILIZATION, n.ENGINE_ACTIVE)

    def _source(self) -> tuple[str, ...]:
        return self.rules.names(*DEVICE_LABELS[:3], *SOURCE_LABELS)

    def _users(self) -> tuple[str, ...]:
        return self.rules.names(*WORKLOAD_LABELS)

    def _identity(self) -> tuple[str, ...]:
        named = self.rules.names(*DEVICE_LABELS, *SOURCE_LABELS, *IDENTITY_LABELS)
        return (*named, *self.rules.node_labels())

    @staticmethod
    def _by(*labels: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(label for group in labels for label in group))

    def _one(self, name: str, matcher: str = "") -> str:
        inside = ", ".join(filter(None, (matcher, self.selector)))
        return f"{name}{{{inside}}}" if inside else name

    def _many(self, names: Iterable[str]) -> str:
        inside = f'__name__=~"{"|".join(names)}"'
        return f"{{{inside}, {self.selector}}}" if self.selector else f"{{{inside}}}"

    def _uuid_matchers(self, uuids: Iterable[str]) -> tuple[str, ...]:
        wanted = "|".join(re.escape(uuid).replace("\\", "\\\\") for uuid in uuids)
        if not wanted:
            return ("",)
        return tuple(f'{label}=~"{wanted}"' for label in self.rules.names("uuid"))


def _part(name: str, expression: str) -> str:
    """Tells the sides of an `or` apart: it compares labels without the metric's name."""
    return f'label_replace({expression}, "gpuctl_part", "{name}", "", "")'
