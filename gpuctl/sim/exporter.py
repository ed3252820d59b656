"""The rows that dcgm-exporter 4.8.2 prints in Kubernetes mode for one card of a simulated node.

With virtual GPUs on (`KUBERNETES_VIRTUAL_GPUS`), a card that several workloads share has one row
for the card and one per pod for GPU_UTIL and FB_USED; every other family is copied per pod. A card
with one tenant has plain rows. MIG instances have rows instead of their card, without any *_UTIL.
An XID row exists only after a first XID. VMs are not known to the kubelet: no label names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from gpuctl.model.sample import Sample
from gpuctl.sim.load import load_pct, noise_key
from gpuctl.sim.scenario import GpuSpec, MigSpec, NodeSpec, Workload

UTIL = "DCGM_FI_DEV_GPU_UTIL"
COPY_UTIL = "DCGM_FI_DEV_MEM_COPY_UTIL"
FB_USED = "DCGM_FI_DEV_FB_USED"
FB_FREE = "DCGM_FI_DEV_FB_FREE"
FB_RESERVED = "DCGM_FI_DEV_FB_RESERVED"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
POWER = "DCGM_FI_DEV_POWER_USAGE"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
DRAM = "DCGM_FI_PROF_DRAM_ACTIVE"
XID = "DCGM_FI_DEV_XID_ERRORS"

JOB = "dcgm-exporter"
XID_LOST = 79
_DRIVER = "550.144.03"
_IDLE_MIB = 4  # what a card without any process shows as used
_XID_TEXT = {
    0: "No Error",
    31: "GPU memory page fault",
    48: "Double Bit ECC Error",
    XID_LOST: "GPU has fallen off the bus",
}
# Share of busy time in which the tensor cores and the memory interface work, by workload class.
_TENSOR_SHARE = {"training": 0.46, "inference": 0.22, "unknown": 0.30}
_DRAM_SHARE = {"training": 0.38, "inference": 0.61, "unknown": 0.50}
# Watts at rest and at full load.
_WATTS = {"NVIDIA A100-SXM4-80GB": (62, 392), "NVIDIA H100 80GB HBM3": (71, 684)}
_OTHER_WATTS = (31, 163)

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Seat:
    """A workload on a device: what its load depends on, and its labels as far as it is a pod.

    `share_labels` are those of its own share of a shared card, `copy_labels` those of the card's
    figures that are repeated for it; both None for a VM.
    """

    workload: Workload
    noise: bytes
    share_labels: Labels | None
    copy_labels: Labels | None


@dataclass(frozen=True, slots=True)
class Device:
    """A whole card or one MIG instance with its tenants.

    `labels` name the device and, when it has one tenant and that is a pod, the pod too.
    """

    mig: MigSpec | None
    labels: Labels
    seats: tuple[Seat, ...]

    @property
    def is_shared(self) -> bool:
        """Whether pods have rows of their own."""
        return len(self.seats) > 1 and any(seat.share_labels is not None for seat in self.seats)

    def loads(self, epoch: float, at: float) -> list[float]:
        """Load of each tenant in points; together at most 100, cut in proportion above."""
        loads = [load_pct(seat.workload, seat.noise, epoch, at) for seat in self.seats]
        total = sum(loads)
        return loads if total <= 100 else [100 * load / total for load in loads]


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU: its identity, and the devices that workloads see."""

    node: str
    gpu: int
    model: str
    spec: GpuSpec
    labels: Labels
    devices: tuple[Device, ...]


def seated_card(
    seed: int,
    node: NodeSpec,
    gpu: int,
    tenants: Mapping[int | None, list[Workload]],
    target: Labels,
) -> Card:
    """The card `gpu` of a node; `tenants` by MIG instance, under None for a whole card.

    `target` are the labels that a scrape adds, empty for what the exporter itself prints.
    """
    spec = node.gpus[gpu]
    labels = {
        "gpu": str(gpu),
        "UUID": gpu_uuid(seed, node.name, gpu),
        "pci_bus_id": f"00000000:{0x07 + 0x40 * (gpu % 4) + 4 * (gpu // 4):02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": node.model,
    }
    host = {"Hostname": node.name, "DCGM_FI_DRIVER_VERSION": _DRIVER}
    devices = []
    for mig in (None,) if spec.mig is None else spec.mig:
        own = dict(labels)
        if mig is not None:
            own |= {"GPU_I_PROFILE": mig.profile, "GPU_I_ID": str(mig.id)}
        own |= host
        there = tenants.get(None if mig is None else mig.id, [])
        devices.append(_device(seed, mig, own, there, target))
    return Card(node.name, gpu, node.model, spec, {**labels, **host, **target}, tuple(devices))


def _device(
    seed: int, mig: MigSpec | None, own: dict[str, str], there: list[Workload], target: Labels
) -> Device:
    pods = [workload for workload in there if workload.kind == "pod"]
    alone = len(there) == 1
    seats = []
    for workload in there:
        share = copy = None
        if workload.kind == "pod" and not alone:
            user = own | _user(workload)
            replica = {"vgpu": str(pods.index(workload))}
            share = {**user, "pod_uid": pod_uid(seed, workload.id), **replica, **target}
            copy = {**user, **replica, **target}
        seats.append(Seat(workload, noise_key(seed, workload.id), share, copy))
    named = _user(pods[0]) if alone and pods else {}
    return Device(mig, {**own, **named, **target}, tuple(seats))


def _user(pod: Workload) -> dict[str, str]:
    return {"container": pod.container, "namespace": pod.namespace, "pod": pod.name}


def gpu_uuid(seed: int, node: str, gpu: int) -> str:
    """The card's UUID, made from where it sits."""
    return "GPU-" + _uuid(f"{seed}|gpu|{node}|{gpu}")


def pod_uid(seed: int, workload_id: str) -> str:
    """The pod's UID."""
    return _uuid(f"{seed}|pod|{workload_id}")


def _uuid(text: str) -> str:
    digits = blake2b(text.encode(), digest_size=16).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def card_rows(
    card: Card, epoch: float, at: float, names: Collection[str] | None
) -> Iterator[Sample]:
    """The card's rows of a scrape at unix time `at`; only families in `names` unless None."""
    spec = card.spec
    if spec.lost_for_seconds is not None and at >= epoch - spec.lost_for_seconds:
        yield from _xid_row(card, at, names, spec.xid or XID_LOST)
        return
    loads = [device.loads(epoch, at) for device in card.devices]
    heat = _card_load(card, loads) / 100
    at_rest, at_full = _WATTS.get(card.model, _OTHER_WATTS)
    shared_figures = (
        (TEMPERATURE, float(round(31 + 44 * heat))),
        (POWER, round(at_rest + (at_full - at_rest) * heat, 3)),
    )
    for device, shares in zip(card.devices, loads, strict=True):
        yield from _device_rows(spec, device, shares, shared_figures, at, names)
    if spec.xid:
        yield from _xid_row(card, at, names, spec.xid)


def _card_load(card: Card, loads: list[list[float]]) -> float:
    """Load of the whole card: of its instances by their share of the compute slices."""
    if card.spec.mig is None:
        return sum(loads[0])
    weighed = sum(
        sum(shares) * mig.slices for mig, shares in zip(card.spec.mig, loads, strict=True)
    )
    return weighed / (4 if "A30" in card.model else 7)


def _device_rows(
    spec: GpuSpec,
    device: Device,
    shares: list[float],
    shared_figures: tuple[tuple[str, float], ...],
    at: float,
    names: Collection[str] | None,
) -> Iterator[Sample]:
    load = sum(shares)
    used = _IDLE_MIB + sum(seat.workload.memory_mib for seat in device.seats)
    own: list[tuple[str, float]] = [(FB_USED, float(_at_most(used, device, spec)))]
    if device.mig is None:
        own.insert(0, (UTIL, float(round(load))))
    seats = device.seats
    for name, value in own:
        if names is None or name in names:
            yield Sample(name, device.labels, value, at)
            if device.is_shared:
                for seat, share in zip(seats, shares, strict=True):
                    if seat.share_labels is not None:
                        part = round(share) if name == UTIL else seat.workload.memory_mib
                        yield Sample(name, seat.share_labels, float(part), at)
    copies = [seat.copy_labels for seat in seats if seat.copy_labels is not None]
    for name, value in (
        *_memory_figures(spec, device, used),
        *shared_figures,
        *_activity_figures(spec, device, shares, load),
    ):
        if names is None or name in names:
            for labels in copies or (device.labels,):
                yield Sample(name, labels, value, at)


def _at_most(used: int, device: Device, spec: GpuSpec) -> int:
    return min(used, spec.usable_mib if device.mig is None else device.mig.fb_mib)


def _memory_figures(spec: GpuSpec, device: Device, used: int) -> tuple[tuple[str, float], ...]:
    used = _at_most(used, device, spec)
    if device.mig is not None:
        return ((FB_FREE, float(device.mig.fb_mib - used)),)
    return ((FB_FREE, float(spec.usable_mib - used)), (FB_RESERVED, float(spec.reserved_mib)))


def _activity_figures(
    spec: GpuSpec, device: Device, shares: list[float], load: float
) -> list[tuple[str, float]]:
    """Bandwidth, and the profiling ratios where the card has them."""
    tensor = dram = 0.0
    for seat, share in zip(device.seats, shares, strict=True):
        tensor += share * _TENSOR_SHARE[seat.workload.workload_class]
        dram += share * _DRAM_SHARE[seat.workload.workload_class]
    figures: list[tuple[str, float]] = []
    if device.mig is None:
        figures.append((COPY_UTIL, float(round(dram))))
    if spec.profiling:
        figures += [
            (ENGINE, round(load / 100, 6)),
            (TENSOR, round(tensor / 100, 6)),
            (DRAM, round(dram / 100, 6)),
        ]
    return figures


def _xid_row(card: Card, at: float, names: Collection[str] | None, code: int) -> Iterator[Sample]:
    if names is None or XID in names:
        error = {"err_code": str(code), "err_msg": _XID_TEXT.get(code, "Unknown Error")}
        yield Sample(XID, {**card.labels, **error}, float(code), at)
