"""The settings of one context, as the configuration file names them."""

from __future__ import annotations

from msgspec import Struct, field


class PrometheusSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach a Prometheus-compatible API. Secrets are files or environment variables."""

    url: str | None = None
    username: str | None = None
    password_file: str | None = None
    password_env: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure_skip_verify: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    selector: str | None = None


class LabelSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which labels to trust.

    `node`: labels to try for the node's name, in order; empty means the built-in order.
    `node_map`: what a label says -> what the node is called.
    `workload`: `auto`, `exported` (only exported_* name workloads) or `plain`.
    `aliases`: a label's usual name -> other spellings, e.g. `UUID: [gpu_uuid]`.
    """

    node: tuple[str, ...] = ()
    node_map: dict[str, str] = field(default_factory=dict)
    workload: str = "auto"
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)


class MetricSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """More names for a family, e.g. `utilization: [my_gpu_util]`; tried before the built-in ones.

    Families: utilization, engine_active, memory_used, memory_free, memory_reserved, memory_total,
    temperature, power, memory_bandwidth, dram_active, tensor, xid.
    """

    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)


class KubernetesSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which Kubernetes cluster: a kubeconfig and its context, or the pod's own service account.

    `namespace`: where gpuctl keeps what is its own, the Lease that it locks by among them.
    """

    kubeconfig: str | None = None
    context: str | None = None
    in_cluster: bool = False
    namespace: str = "gpuctl"


class ProxmoxSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which Proxmox VE cluster; endpoints are tried in order.

    `fingerprint`: the SHA-256 fingerprint of the certificate that every endpoint shows.
    `fingerprints`: the same per host of an endpoint, since each node has its own certificate.
    `kubernetes_nodes`: VM id -> the Kubernetes node that runs in it, where nothing else tells.
    """

    endpoints: tuple[str, ...] = ()
    token_id: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    ca_file: str | None = None
    fingerprint: str | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)
    kubernetes_nodes: dict[str, str] = field(default_factory=dict)


class ContextSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One cluster and how to reach everything about it."""

    cluster: str | None = None
    prometheus: PrometheusSettings = PrometheusSettings()
    exporters: tuple[str, ...] = ()
    labels: LabelSettings = LabelSettings()
    metrics: MetricSettings = MetricSettings()
    kubernetes: KubernetesSettings | None = None
    proxmox: ProxmoxSettings | None = None
