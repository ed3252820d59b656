"""What the labels of a sample say: which device, which node, whose workload.

The rules follow dcgm-exporter's label set (`internal/pkg/rendermetrics`), its old 1.x form, and
the ways in which scrape configurations bend them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuctl.model.settings import LabelSettings

Labels = Mapping[str, str]
DeviceKey = tuple[str, str]
"""Cluster (or "") and UUID."""

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "cluster": ("cluster",),
    "uuid": ("UUID", "uuid", "gpu_uuid"),
    "mig_id": ("GPU_I_ID", "gpu_i_id"),
    "profile": ("GPU_I_PROFILE", "gpu_i_profile", "dra_mig_profile"),
    "gpu": ("gpu",),
    "device": ("device",),
    "model": ("modelName", "modelname", "model_name"),
    "pci_bus_id": ("pci_bus_id",),
    "hostname": ("Hostname", "hostname"),
    "instance": ("instance",),
    "job": ("job",),
    "replica": ("prometheus_replica", "replica", "__replica__"),
    "exported_pod": ("exported_pod",),
    "exported_namespace": ("exported_namespace",),
    "exported_container": ("exported_container",),
    "pod": ("pod", "pod_name"),
    "namespace": ("namespace", "pod_namespace"),
    "container": ("container", "container_name"),
    "hpc_job": ("hpc_job",),
}

_NODE_LABELS = ("node", "kubernetes_node", "nodename")

# The 1.x names of the workload's labels. No scrape configuration moves them aside.
_OLD_POD_LABELS = {
    "pod_name": ("pod_namespace", "container_name"),
}
# DCGM's blank strings: `<<<NULL>>>`, `<<<NOT_FOUND>>>` and their like.
_BLANK = "<<<"

DEVICE_LABELS = ("cluster", "uuid", "mig_id", "profile")
SOURCE_LABELS = ("job", "instance", "replica")
IDENTITY_LABELS = ("gpu", "device", "model", "pci_bus_id", "hostname")
WORKLOAD_LABELS = (
    "exported_pod",
    "exported_namespace",
    "exported_container",
    "pod",
    "namespace",
    "container",
    "hpc_job",
)

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
# A DaemonSet's pod: its name contains dcgm-exporter and ends in five random characters.
_EXPORTER_POD = re.compile(r"(?:^|-)dcgm-exporter-(?:[a-z0-9]{6,10}-)?[a-z0-9]{5}$")
_LOOPBACK = re.compile(r"^(?:localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """The user of a device as the labels name it."""

    namespace: str
    name: str
    container: str | None
    kind: str = "pod"

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def looks_like_exporter_pod(name: str) -> bool:
    """Whether a name is that of an exporter's own pod, which changes at each restart."""
    return _EXPORTER_POD.search(name) is not None


def without_port(instance: str) -> str:
    """`host:9400` -> `host`; an IPv6 address loses its brackets as well."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, _, port = instance.rpartition(":")
    return host if host and port.isdigit() and ":" not in host else instance


@dataclass(frozen=True, slots=True)
class LabelRules:
    """How one site's labels are read; built from the context's `labels` settings."""

    settings: LabelSettings = field(default_factory=LabelSettings)
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(_SPELLINGS))

    @classmethod
    def of(cls, settings: LabelSettings) -> LabelRules:
        """The built-in spellings plus those of `settings.aliases`.

        An alias is given under the label's usual name (`UUID: [gpu_id]`), in any of our spellings.
        """
        spellings = dict(_SPELLINGS)
        for usual, extra in settings.aliases.items():
            key = next((k for k, known in _SPELLINGS.items() if usual == k or usual in known), None)
            if key is not None:
                spellings[key] = tuple(dict.fromkeys((*extra, *spellings[key])))
        return cls(settings=settings, spellings=spellings)

    def get(self, labels: Labels, key: str) -> str | None:
        """A label under any of its spellings. An empty or blank label equals an absent one."""
        for spelling in self.spellings[key]:
            value = labels.get(spelling)
            if value and (value[0] != "<" or not value.startswith(_BLANK)):
                return value
        return None

    def device_key(self, labels: Labels) -> DeviceKey | None:
        """Cluster (or "") and UUID of the card; None when the labels name no card.

        Where relabelling dropped the UUID, `NODE#INDEX` is the next best identity.
        """
        cluster = self.get(labels, "cluster") or ""
        uuid = self.get(labels, "uuid")
        if uuid is not None:
            return (cluster, uuid)
        index = self.get(labels, "gpu") or self.get(labels, "device")
        return None if index is None else (cluster, f"{self.node(labels) or '?'}#{index}")

    def mig_id(self, labels: Labels) -> int | None:
        """DCGM's id of the MIG instance; None for a whole card."""
        text = self.get(labels, "mig_id")
        return int(text) if text is not None and text.isdecimal() else None

    def source(self, labels: Labels) -> tuple[str | None, str | None, str | None]:
        """Which target, and which of two replicas, a sample came through."""
        get = self.get
        return (get(labels, "job"), get(labels, "instance"), get(labels, "replica"))

    def names(self, *keys: str) -> tuple[str, ...]:
        """All spellings of some labels, for a query.

        What can't be a label's name is left out: a server has no such labels, and would refuse.
        """
        found = (spelling for key in keys for spelling in self.spellings[key])
        return tuple(name for name in found if _LABEL_NAME.match(name))

    def node_labels(self) -> tuple[str, ...]:
        """Labels that may carry the node's name besides Hostname and instance."""
        found = dict.fromkeys((*self.settings.node, *_NODE_LABELS))
        return tuple(name for name in found if _LABEL_NAME.match(name))

    def node(self, labels: Labels) -> str | None:
        """The node a sample comes from, or None when no label tells.

        Order: the configured labels; `node`, `kubernetes_node`, `nodename`; `Hostname` unless it
        is a loopback name or the exporter's own pod; `instance` without its port. An exporter's
        pod name or a loopback address is used only when there is nothing better.
        """
        return self.named_node(labels)[1]

    def named_node(self, labels: Labels) -> tuple[int, str | None]:
        """The node's name behind a rank: of two names for one node the lower rank is better."""
        rank, name = self._node(labels)
        return rank, None if name is None else self.settings.node_map.get(name, name)

    def _node(self, labels: Labels) -> tuple[int, str | None]:
        weak: list[str] = []
        for rank, label in enumerate((*self.settings.node, *_NODE_LABELS, "Hostname")):
            named = self._any_spelling(labels, label)
            if named and label == "instance":
                named = without_port(named)
            if named and (label in _NODE_LABELS or not self._is_weak(named, labels)):
                return rank, named
            if named:
                weak.append(named)
        last = len(self.settings.node) + len(_NODE_LABELS) + 1
        instance = self.get(labels, "instance")
        if instance:
            host = without_port(instance)
            if not _LOOPBACK.match(host):
                return last, self.settings.node_map.get(instance, host)
            weak.append(host)
        # A pod's name at least tells two nodes apart; a loopback address does not.
        for name in weak:
            if not _LOOPBACK.match(name):
                return last + 1, name
        return last + 2, weak[0] if weak else None

    def _any_spelling(self, labels: Labels, label: str) -> str | None:
        """A label by name: `Hostname` also finds `hostname`, what newer exporters call it."""
        for key, spellings in self.spellings.items():
            if label in spellings:
                return self.get(labels, key)
        return labels.get(label)

    def _is_weak(self, name: str, labels: Labels) -> bool:
        """Whether a host name can't name a node: loopback, or the exporter's pod."""
        if _LOOPBACK.match(name) or looks_like_exporter_pod(name):
            return True
        return name == labels.get("pod")

    def workload(self, labels: Labels, *, exported: bool) -> WorkloadName | None:
        """Who uses the device, by one sample's labels.

        `exported`: the sample's scrape job moves the exporter's own pod labels aside
        (`honor_labels: false`), so that plain `pod` names the exporter.
        """
        mode = self.settings.workload
        pod = self.get(labels, "exported_pod") if mode != "plain" else None
        if pod:
            return WorkloadName(
                self.get(labels, "exported_namespace") or "",
                pod,
                self.get(labels, "exported_container"),
            )
        if mode != "exported":
            for spelling in self.spellings["pod"]:
                if exported and spelling == "pod":
                    continue
                found = self._plain_workload(labels, spelling)
                if found is not None:
                    return found
        hpc_job = self.get(labels, "hpc_job")
        return WorkloadName("", f"job/{hpc_job}", None, kind="job") if hpc_job else None

    def _plain_workload(self, labels: Labels, spelling: str) -> WorkloadName | None:
        """The pod that one label names with those beside it, unless that is the exporter."""
        pod = labels.get(spelling)
        if not pod or pod.startswith(_BLANK):
            return None
        if spelling in _OLD_POD_LABELS:
            namespace, container = (labels.get(name) for name in _OLD_POD_LABELS[spelling])
        else:
            namespace, container = self.get(labels, "namespace"), self.get(labels, "container")
        if _is_exporter(pod, container) or pod == self.get(labels, "hostname"):
            return None
        return WorkloadName(namespace or "", pod, container or None)

    def job_group(self, labels: Labels) -> tuple[str, str]:
        """Samples of one group are scraped alike: all of them honour labels or none does."""
        return (self.get(labels, "cluster") or "", self.get(labels, "job") or "")

    def exported_groups(self, samples: Iterable[Labels]) -> frozenset[tuple[str, str]]:
        """The groups in which `exported_pod` occurs."""
        if self.settings.workload == "plain":
            return frozenset()
        keys = self.spellings["exported_pod"]
        return frozenset(
            self.job_group(labels) for labels in samples if any(labels.get(k) for k in keys)
        )


def _is_exporter(pod: str, container: str | None) -> bool:
    return (
        looks_like_exporter_pod(pod)
        or "dcgm-exporter" in pod
        or (container is not None and "dcgm" in container)
    )
