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
from gpuctl.metrics.bounds import limits
from gpuctl.metrics.labels import (
    DEVICE_LABELS,
    IDENTITY_LABELS,
    SOURCE_LABELS,
    WORKLOAD_LABELS,
    LabelRules,
)
from gpuctl.metrics.names import MetricNames

SEEN_WITHIN = "1h"
INTERVAL_MARK = "gpuctl_samples_counted"
INTERVAL_SECONDS = 900

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_DETAIL_FAMILIES = (n.TEMPERATURE, n.POWER, n.MEMORY_COPY, n.DRAM_ACTIVE, n.TENSOR)


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries for one site: its metric names, its labels, its selector."""

    names: MetricNames
    rules: LabelRules
    selector: str | None = None

    @classmethod
    def of(cls, names: MetricNames, rules: LabelRules, selector: str | None) -> QuerySet:
        """The queries with a selector as people write it: with or without its braces."""
        text = (selector or "").strip()
        if text.startswith("{") and text.endswith("}"):
            text = text[1:-1]
        return cls(names, rules, text.strip().rstrip(",").rstrip() or None)

    def presence(self) -> str:
        """Per series of a device: all its labels, and the unix time of its newest sample."""
        families = (n.UTILIZATION, n.ENGINE_ACTIVE, n.MEMORY_USED, n.XID)
        # `or` and not a regular expression: timestamp() drops the metric name, and two names
        # with the same labels would then be an error.
        each = " or ".join(
            f"timestamp({self.one(name)})" for name in self.names.of_families(*families)
        )
        return f"max by ({self._by(self._identity(), self._users())}) ({each})"

    def utilization(self) -> str:
        """Utilization and engine activity of every device, shares of pods included."""
        return self._per_user(self.names.of_families(n.UTILIZATION, n.ENGINE_ACTIVE))

    def figures(self, *, details: bool) -> str:
        """Memory, the last XID and, with `details`, temperature, power and activity."""
        plain = self.names.of_families(
            n.MEMORY_RESERVED, n.MEMORY_TOTAL, *(_DETAIL_FAMILIES if details else ())
        )
        return " or ".join(
            (
                self._per_user(self.names.of_families(n.MEMORY_USED, n.MEMORY_FREE)),
                _part("plain", self._per_card(plain)),
                _part("xid", self._per_card(self.names.of_families(n.XID), "> 0")),
            )
        )

    def silent(self) -> str:
        """Devices that had a utilization within the hour and have none now.

        One more sample tells how many samples a series has in INTERVAL_SECONDS, from which the
        scrape interval follows: the median of those that are older than that, since a new pod's
        series or a young server's would look like a slow scrape.
        """
        busy = self._many(self._utilization_names())
        nameless = self._many(self._utilization_names(), self._no_uuid())
        span = f"{INTERVAL_SECONDS}s"
        counts = " or ".join(
            f"(count_over_time({self.one(name)}[{span}]) and {self.one(name)} offset {span})"
            for name in self._utilization_names()
        )
        return (
            f"max by ({self._by(self._identity())}) "
            f"({_gone(busy, self._by(self.rules.names('cluster', 'uuid')))}"
            f" or {_gone(nameless, self._by(self._place()))}) "
            f'or label_replace(quantile(0.5, {counts}), "{INTERVAL_MARK}", "1", "", "")'
        )

    def utilization_over_time(
        self,
        present: frozenset[str],
        *,
        one_means: float | None = None,
        uuids: Iterable[str] = (),
        younger_than: float | None = None,
        places: bool = False,
    ) -> str:
        """Percent of utilization per device, corrupt samples dropped, pods aggregated away.

        `present`: metric names that the site has. `one_means`: percent behind a 1 of the site's
        DCGM_FI_DEV_GPU_UTIL_RATIO, None when it can't be told. `younger_than`: seconds after
        which a sample no longer stands for a step; a server repeats it for five minutes, which
        would hide lost scrapes. `places`: keep the labels that tell cards without UUID apart.
        """
        chosen = [name for name in self._utilization_names() if name in present]
        by = self._by(self._device(places=places))
        only = self._uuid_matchers(uuids)
        return " or ".join(
            self._percent(name, matcher, by, one_means, younger_than)
            for name in chosen
            for matcher in only
        )

    def _percent(
        self, name: str, matcher: str, by: str, one_means: float | None, younger_than: float | None
    ) -> str:
        engine = self.names.family_of[name] == n.ENGINE_ACTIVE
        whole = "" if engine else ", ".join(f'{label}=""' for label in self.rules.names("mig_id"))
        series = self.one(name, ", ".join(filter(None, (whole, matcher))))
        fresh = (
            "" if younger_than is None else f" and timestamp({series}) >= time() - {younger_than:g}"
        )
        if engine:
            return f"clamp_max(100 * max by ({by}) (({series} >= 0 < 2){fresh}), 100)"
        percent = f"({series} >= 0 <= 100)"
        if name in n.RATIO_NAMED_UTILIZATION:
            sides = [f"({series} > 1 <= 100)", f"100 * ({series} >= 0 < 1)"]
            if one_means is not None:
                sides.append(f"{one_means:g} * ({series} == 1)")
            percent = f"({' or '.join(sides)})"
        return f"max by ({by}) ({percent}{fresh})"

    def figure_over_time(self, families: Iterable[str], *, places: bool = False) -> str:
        """Raw values of some families per device, the name kept, impossible ones dropped."""
        by = self._by(self._device(places=places))
        return " or ".join(
            f"max by (__name__, {by}) ({self._many(self.names.of_families(family))} "
            f">= {limits(family)[0]:g} <= {limits(family)[1]:g})"
            for family in families
        )

    def raw(self, uuid: str) -> str:
        """Every series we know of one card, with all labels; without UUID, of all such cards."""
        known = self.names.of_families(*n.FAMILIES)
        if "#" in uuid:
            return self._many(known, self._no_uuid())
        return " or ".join(self._many(known, matcher) for matcher in self._uuid_matchers([uuid]))

    # -- parts --------------------------------------------------------------------------------

    def _utilization_names(self) -> tuple[str, ...]:
        return self.names.of_families(n.UTILIZATION, n.ENGINE_ACTIVE)

    def _per_user(self, names: tuple[str, ...]) -> str:
        """Highest value per card, target and workload: each may have a time of its own."""
        return self._highest(names, self._users())

    def _per_card(self, names: tuple[str, ...], condition: str = "") -> str:
        return self._highest(names, (), condition)

    def _highest(self, names: tuple[str, ...], more: tuple[str, ...], condition: str = "") -> str:
        """`max by` that keeps what names a card; without UUID that is where it stands."""
        return (
            f"max by (__name__, {self._by(self._source(), more)}) "
            f"({self._many(names)} {condition}) "
            f"or max by (__name__, {self._by(self._source(), self._place(), more)}) "
            f"({self._many(names, self._no_uuid())} {condition})"
        )

    def _source(self) -> tuple[str, ...]:
        return self.rules.names(*DEVICE_LABELS, *SOURCE_LABELS)

    def _users(self) -> tuple[str, ...]:
        return self.rules.names(*WORKLOAD_LABELS)

    def _identity(self) -> tuple[str, ...]:
        named = self.rules.names(*DEVICE_LABELS, *SOURCE_LABELS, *IDENTITY_LABELS)
        return (*named, *self.rules.node_labels())

    def _place(self) -> tuple[str, ...]:
        """What tells two cards apart that have no UUID."""
        named = self.rules.names("cluster", "hostname", "instance", "gpu", "device", "pod")
        return (*named, *self.rules.node_labels())

    def _device(self, *, places: bool) -> tuple[str, ...]:
        return (*self.rules.names(*DEVICE_LABELS), *(self._place() if places else ()))

    def _no_uuid(self) -> str:
        return ", ".join(f'{label}=""' for label in self.rules.names("uuid"))

    @staticmethod
    def _by(*labels: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(label for group in labels for label in group))

    def one(self, name: str, matcher: str = "") -> str:
        """The selector of one metric."""
        plain = _METRIC_NAME.match(name) is not None
        named = None if plain else f'__name__="{_quoted(name)}"'
        inside = ", ".join(filter(None, (named, matcher, self.selector)))
        return f"{name if plain else ''}{{{inside}}}" if inside else name

    def _many(self, names: Iterable[str], matcher: str = "") -> str:
        named = f'__name__=~"{"|".join(_quoted(re.escape(name)) for name in names)}"'
        return f"{{{', '.join(filter(None, (named, matcher, self.selector)))}}}"

    def _uuid_matchers(self, uuids: Iterable[str]) -> tuple[str, ...]:
        wanted = "|".join(_quoted(re.escape(uuid)) for uuid in uuids)
        if not wanted:
            return ("",)
        return tuple(f'{label}=~"{wanted}"' for label in self.rules.names("uuid"))


def _part(name: str, expression: str) -> str:
    """Tells the sides of an `or` apart: it compares labels without the metric's name."""
    return f'label_replace({expression}, "gpuctl_part", "{name}", "", "")'


def _gone(series: str, on: str) -> str:
    return f"(last_over_time({series}[{SEEN_WITHIN}]) unless on ({on}) {series})"


def _quoted(text: str) -> str:
    """A text as it stands between the double quotes of PromQL."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
