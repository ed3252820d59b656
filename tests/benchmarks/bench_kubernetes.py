"""5,000 pods from a local API server: gpuctl's client, and the official library's own models.

`python -m tests.benchmarks.bench_kubernetes`. Each way runs in a process of its own, against the
same prepared pages; times are CPU seconds of the list alone, imports and login apart.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.http_server import FakeServer, Reply, Request

PODS = 5_000
PAGE = 500
_ROUNDS = 3
_OURS = """
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.inventory.kubernetes_facts import gpu_requests
from gpuctl.model.settings import KubernetesSettings
client = KubernetesClient(KubernetesSettings(kubeconfig=PATH), request_timeout=60, environ={})
def listed():
    pods = client.pods()
    return len(pods), sum(sum(gpu_requests(pod).values()) for pod in pods)
"""
_THEIRS = """
from kubernetes import client, config
config.load_kube_config(PATH)
api = client.CoreV1Api()
def listed():
    count = gpus = 0
    token = None
    while True:
        page = api.list_pod_for_all_namespaces(limit=LIMIT, _continue=token) if token else (
            api.list_pod_for_all_namespaces(limit=LIMIT))
        count += len(page.items)
        for pod in page.items:
            for container in pod.spec.containers:
                asked = (container.resources.requests or {}).get("nvidia.com/gpu", 0)
                gpus += int(asked)
        token = page.metadata.var_continue
        if not token:
            return count, gpus
"""
_RUN = """
import resource, time
best = None
for _ in range(ROUNDS):
    began = time.process_time()
    found = listed()
    taken = time.process_time() - began
    best = taken if best is None else min(best, taken)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(*found, best, peak)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of one list, the best of several, and the process's peak memory."""

    pods: int
    gpus: int
    cpu_seconds: float
    peak_mib: float


def a_pod(index: int) -> dict[str, Any]:
    """A pod of the size that real ones have: most of it is what gpuctl skips."""
    name, namespace = f"train-{index // 8}-{index % 8:05x}", f"team-{index % 20}"
    fields = {f"f:field-{i}": {"f:inner": {}, "f:more": {}} for i in range(60)}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(12)],
        "resources": {
            "limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
            "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
        },
        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/{i}"} for i in range(4)],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    at = "2026-12-01T01:32:24Z"
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"b4f23929-7975-467b-b08e-{index:012x}",
            "resourceVersion": str(10_000 + index),
            "creationTimestamp": at,
            "labels": {"app": "train", "job": str(index // 8), "rank": str(index % 8)},
            "annotations": {"example.com/config": "x" * 200},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"train-{index // 8}",
                    "uid": f"c4f23929-7975-467b-b08e-{index // 8:012x}",
                    "controller": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": at,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": fields,
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": f"v{i}", "emptyDir": {"medium": "Memory"}} for i in range(4)],
            "nodeName": f"gpu-{index % 700}",
            "priority": 0,
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "startTime": at,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": at}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/train:1",
                    "imageID": "registry.example/train@sha256:" + "0" * 64,
                    "state": {"running": {"startedAt": at}},
                }
            ],
        },
    }


def pages() -> list[bytes]:
    """The whole list in pages, as JSON."""
    found = []
    for start in range(0, PODS, PAGE):
        last = start + PAGE >= PODS
        metadata: dict[str, Any] = {"resourceVersion": "20000"}
        if not last:
            metadata |= {"continue": str(start + PAGE), "remainingItemCount": PODS - start - PAGE}
        items = [a_pod(index) for index in range(start, start + PAGE)]
        page = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        found.append(json.dumps(page, separators=(",", ":")).encode())
    return found


@contextmanager
def server(prepared: list[bytes]) -> Iterator[str]:
    """A server of these pages, plain or packed, and the path of a kubeconfig for it."""
    packed = [gzip.compress(page, 1, mtime=0) for page in prepared]

    def answer(request: Request) -> Reply:
        kind = "application/json"
        index = int(request.param("continue") or 0) // PAGE
        if "gzip" in request.headers.get("accept-encoding", ""):
            packing = {"Content-Encoding": "gzip"}
            return Reply(body=packed[index], headers=packing, content_type=kind)
        return Reply(body=prepared[index], content_type=kind)

    with FakeServer(answer) as running, tempfile.TemporaryDirectory() as folder:
        content = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": running.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path = Path(folder) / "kubeconfig"
        path.write_text(json.dumps(content))
        yield str(path)


def measure(program: str, kubeconfig: str) -> Measured:
    """Run one way to list in a process of its own."""
    head = f"PATH, LIMIT, ROUNDS = {kubeconfig!r}, {PAGE}, {_ROUNDS}\n"
    environ = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    done = subprocess.run(
        [sys.executable, "-c", head + program + _RUN],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    pods, gpus, seconds, peak = done.stdout.split()
    return Measured(int(pods), int(gpus), float(seconds), float(peak))


def table() -> list[str]:
    """Both ways, as a table."""
    prepared = pages()
    with server(prepared) as kubeconfig:
        ours, theirs = measure(_OURS, kubeconfig), measure(_THEIRS, kubeconfig)
    if (ours.pods, ours.gpus) != (theirs.pods, theirs.gpus) or ours.pods != PODS:
        raise AssertionError(f"they do not agree: {ours}, {theirs}")
    size = sum(map(len, prepared)) / 2**20
    return [
        f"| {PODS:,} pods, {size:.0f} MiB of JSON, best of {_ROUNDS} | CPU, s | peak, MiB |",
        "| --- | ---: | ---: |",
        f"| gpuctl | {ours.cpu_seconds:.2f} | {ours.peak_mib:.0f} |",
        f"| the library's models, same pages | {theirs.cpu_seconds:.2f} | {theirs.peak_mib:.0f} |",
        f"| ratio | {theirs.cpu_seconds / ours.cpu_seconds:.1f} "
        f"| {theirs.peak_mib / ours.peak_mib:.1f} |",
    ]


if __name__ == "__main__":
    print("\n".join(table()))  # noqa: T201 - printing is what this program is for
