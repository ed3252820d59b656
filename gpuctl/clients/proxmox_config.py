"""Property strings of Proxmox VE: a VM's devices and disks, and the rows of a PCI mapping."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class PciAddress(NamedTuple):
    """A PCI address as integers, since domains are written with four digits or eight.

    `function` None means all functions of the device.
    """

    domain: int
    bus: int
    device: int
    function: int | None = None

    def __str__(self) -> str:
        whole = f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}"
        return whole if self.function is None else f"{whole}.{self.function:x}"

    def covers(self, other: PciAddress) -> bool:
        """Whether `other` is this device, or one of its functions when none is named."""
        return self[:3] == other[:3] and self.function in (None, other.function)


_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})"
    r"(?:\.(?P<function>[0-7]))?",
    re.IGNORECASE,
)


def parse_pci(text: str) -> PciAddress | None:
    """`0000:41:00.0`, `41:00` or DCGM's `00000000:41:00.0`; None for anything else."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        return None
    function = found["function"]
    return PciAddress(
        int(found["domain"] or "0", 16),
        int(found["bus"], 16),
        int(found["device"], 16),
        None if function is None else int(function, 16),
    )


@dataclass(frozen=True, slots=True)
class HostPci:
    """One `hostpciN` of a VM.

    Raw: `addresses`, several for functions of one slot or alternatives. Mapped: `mapping`.
    `mdev` is the type of a mediated device or vGPU. `is_pcie`: the guest sees it behind a port.
    """

    key: str
    addresses: tuple[PciAddress, ...] = ()
    mapping: str | None = None
    mdev: str | None = None
    is_pcie: bool = False

    @property
    def index(self) -> int:
        """The N of hostpciN."""
        return int(self.key.removeprefix("hostpci"))

    @property
    def is_raw(self) -> bool:
        """Whether it names devices of one node, so that only that node can run it."""
        return self.mapping is None


_HOSTPCI = re.compile(r"hostpci\d{1,2}")
_DISK = re.compile(r"(?:ide|sata|scsi|virtio|efidisk|tpmstate|unused)\d{1,2}")


def properties(text: str) -> tuple[str | None, dict[str, str]]:
    """A property string: its leading bare value, and what it says by key."""
    bare: str | None = None
    named: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if equals:
            named[key.strip()] = value.strip()
        elif bare is None and part.strip():
            bare = part.strip()
    return bare, named


def hostpci_of(config: Mapping[str, str]) -> tuple[HostPci, ...]:
    """All devices that are passed through to a VM, by number."""
    keys = sorted((key for key in config if _HOSTPCI.fullmatch(key)), key=lambda key: int(key[7:]))
    return tuple(_hostpci(key, config[key]) for key in keys)


def _hostpci(key: str, text: str) -> HostPci:
    bare, named = properties(text)
    raw = named.get("host") or bare or ""
    found = (parse_pci(part) for part in raw.split(";") if part)
    return HostPci(
        key=key,
        addresses=tuple(address for address in found if address is not None),
        mapping=named.get("mapping"),
        mdev=named.get("mdev"),
        is_pcie=named.get("pcie") == "1",
    )


@dataclass(frozen=True, slots=True)
class DiskRef:
    """A drive of a VM: the storage and volume behind it; `storage` None for a path of the host."""

    key: str
    storage: str | None
    volume: str
    is_cdrom: bool


def disks_of(config: Mapping[str, str]) -> tuple[DiskRef, ...]:
    """All drives that have something in them, in the order of their names."""
    return tuple(_disks(config))


def _disks(config: Mapping[str, str]) -> Iterator[DiskRef]:
    for key in sorted(filter(_DISK.fullmatch, config)):
        bare, named = properties(config[key])
        volume = named.get("file") or bare or "none"
        if volume == "none":
            continue
        storage, colon, _ = volume.partition(":")
        is_cdrom = named.get("media") == "cdrom"
        yield DiskRef(key, storage if colon and "/" not in storage else None, volume, is_cdrom)


def smbios_uuid(config: Mapping[str, str]) -> str | None:
    """The UUID that the guest's firmware shows, in lower case; None when none is configured."""
    _, named = properties(config.get("smbios1", ""))
    try:
        return str(uuid.UUID(named["uuid"]))
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """One device of a PCI mapping on one node; several of a node are alternatives."""

    node: str
    addresses: tuple[PciAddress, ...]


def mapped_device(row: str) -> MappedDevice | None:
    """A row of a mapping's `map`; None when it names no node or no device."""
    _, named = properties(row)
    found = tuple(parse_pci(part) for part in named.get("path", "").split(";") if part)
    addresses = tuple(address for address in found if address is not None)
    if not named.get("node") or not addresses:
        return None
    return MappedDevice(named["node"], addresses)


def tags_of(text: str | None) -> tuple[str, ...]:
    """A VM's tags; Proxmox VE joins them with semicolons, older releases with commas or blanks."""
    return tuple(part for part in re.split(r"[;,\s]+", text or "") if part)
