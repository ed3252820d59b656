"""Which metric names mean the same figure.

Sources: dcgm-exporter's default, dcp and 1.x-compatibility counter lists; NVIDIA/DCGM 4.6.0
`dcgmlib/dcgm_fields.h` for the names that replaced older ones. A site's own CSV decides, hence
the table can be extended in the configuration (`metrics.aliases`). Pipelines that lower-case
every name are covered: each name also counts in lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuctl.errors import ConfigError

UTILIZATION = "utilization"
ENGINE_ACTIVE = "engine_active"
MEMORY_USED = "memory_used"
MEMORY_FREE = "memory_free"
MEMORY_RESERVED = "memory_reserved"
MEMORY_TOTAL = "memory_total"
TEMPERATURE = "temperature"
POWER = "power"
MEMORY_COPY = "memory_bandwidth"
DRAM_ACTIVE = "dram_active"
TENSOR = "tensor"
XID = "xid"

_BUILT_IN: Mapping[str, tuple[str, ...]] = {
    UTILIZATION: (
        "DCGM_FI_DEV_GPU_UTIL",
        "dcgm_gpu_utilization",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
    ),
    ENGINE_ACTIVE: ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    MEMORY_USED: ("DCGM_FI_DEV_FB_USED", "dcgm_fb_used"),
    MEMORY_FREE: ("DCGM_FI_DEV_FB_FREE", "dcgm_fb_free"),
    MEMORY_RESERVED: ("DCGM_FI_DEV_FB_RESERVED", "dcgm_fb_reserved"),
    MEMORY_TOTAL: ("DCGM_FI_DEV_FB_TOTAL", "dcgm_fb_total"),
    TEMPERATURE: ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", "dcgm_gpu_temp"),
    POWER: ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"),
    MEMORY_COPY: ("DCGM_FI_DEV_MEM_COPY_UTIL", "dcgm_mem_copy_utilization"),
    DRAM_ACTIVE: ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"),
    TENSOR: ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
    XID: ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", "dcgm_xid_errors"),
}

FAMILIES = tuple(_BUILT_IN)

# Per cent in DCGM up to 4.6 in spite of the name, a ratio 0..1 from 4.7 on: see
# `bounds.ratio_named_scale`.
RATIO_NAMED_UTILIZATION = frozenset({"DCGM_FI_DEV_GPU_UTIL_RATIO", "dcgm_fi_dev_gpu_util_ratio"})


def _with_lower_case(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelt for name in names for spelt in (name, name.lower())))


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The names of each family in order of trust, and the family of each name."""

    by_family: Mapping[str, tuple[str, ...]]
    family_of: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, aliases: Mapping[str, Iterable[str]] | None = None) -> MetricNames:
        """The built-in table with `aliases` (family -> more names) tried first.

        Raises ConfigError for an alias of a family that there is not.
        """
        unknown = [family for family in aliases or {} if family not in _BUILT_IN]
        if unknown:
            raise ConfigError(
                f"metrics.aliases names no figure: {', '.join(unknown)}",
                cause="an alias is given under the figure that it stands for",
                hint=f"figures: {', '.join(FAMILIES)}",
            )
        by_family = {
            family: _with_lower_case((*(aliases or {}).get(family, ()), *built_in))
            for family, built_in in _BUILT_IN.items()
        }
        # The first family to claim a name keeps it; a site's alias therefore wins over ours.
        family_of: dict[str, str] = {}
        for family, extra in (aliases or {}).items():
            for name in extra:
                family_of.setdefault(name, family)
        for family, names in by_family.items():
            for name in names:
                family_of.setdefault(name, family)
        return cls(by_family=by_family, family_of=family_of)

    def rank(self, name: str) -> int:
        """Position of a name within its family: lower is more trusted."""
        return self.by_family[self.family_of[name]].index(name)

    def of_families(self, *families: str) -> tuple[str, ...]:
        """All names of some families, in order."""
        return tuple(name for family in families for name in self.by_family[family])
