"""What a manifest asks for, as the scheduler would count it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuctl.errors import UsageError
from gpuctl.inventory.pod_file import PodNeeds, load_pod
from gpuctl.model.score import Request


def a_container(**amounts: Any) -> dict[str, Any]:
    """`mig="2"` and the like stay short: keys are resource names behind nvidia.com/."""
    limits = {f"nvidia.com/{name.replace('_', '-')}": value for name, value in amounts.items()}
    return {"name": "main", "resources": {"limits": limits}}


def a_manifest(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llm", "labels": {"tier": "inference"}},
        "spec": {"containers": list(containers), **spec},
    }


def needs_of(*documents: Any) -> PodNeeds:
    return load_pod("-", io.StringIO(yaml.safe_dump_all(documents)))


@pytest.mark.parametrize(
    ("manifest", "request_"),
    [
        (a_manifest(a_container(gpu=2)), Request(gpus=2)),
        (a_manifest(a_container(gpu="2"), a_container(gpu=1)), Request(gpus=3)),
        (a_manifest(a_container(gpu=1), a_container()), Request(gpus=1)),
        (a_manifest(a_container(**{"gpu.shared": 1})), Request(shared=True)),
        (a_manifest(a_container(**{"mig-1g.10gb": 1})), Request(mig_profile="1g.10gb")),
        (
            a_manifest(a_container(**{"mig-1g.10gb.me": 2})),
            Request(gpus=2, mig_profile="1g.10gb+me"),
        ),
        (
            a_manifest(a_container(gpu=1), initContainers=[a_container(gpu=4)]),
            Request(gpus=4),
        ),
        (
            a_manifest(
                a_container(gpu=1),
                initContainers=[{**a_container(gpu=2), "restartPolicy": "Always"}],
            ),
            Request(gpus=3),
        ),
        (
            a_manifest({"resources": {"requests": {"nvidia.com/gpu": 1, "cpu": "500m"}}}),
            Request(gpus=1),
        ),
    ],
)
def test_resources_are_counted_as_the_scheduler_does(
    manifest: dict[str, Any], request_: Request
) -> None:
    assert needs_of(manifest).request == request_


def test_name_and_labels_come_along() -> None:
    needs = needs_of(a_manifest(a_container(gpu=1)))
    assert (needs.name, needs.labels) == ("llm", {"tier": "inference"})


def test_templates_are_unwrapped() -> None:
    pod = a_manifest(a_container(gpu=2))
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    deployment = {"kind": "Deployment", "spec": {"replicas": 3, "template": template}}
    cron = {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}
    for document in (deployment, cron, {"kind": "List", "items": [deployment]}):
        needs = needs_of({"kind": "Service", "spec": {"ports": []}}, None, document)
        assert (needs.request.gpus, needs.labels) == (2, {"tier": "inference"})


def test_the_first_pod_with_gpus_is_taken() -> None:
    assert needs_of(a_manifest(a_container()), a_manifest(a_container(gpu=3))).request.gpus == 3


def test_the_product_label_becomes_the_model() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "zone": "b"}
    request = needs_of(a_manifest(a_container(gpu=1), nodeSelector=selector)).request
    assert request.gpu_model == "NVIDIA?A100?SXM4?80GB"
    assert request.unchecked == ("nodeSelector zone=b",)


def test_what_only_an_inventory_could_check_is_named() -> None:
    spec = {
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}, "podAntiAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "nodeName": "n1",
    }
    assert needs_of(a_manifest(a_container(gpu=1), **spec)).request.unchecked == (
        "taints and tolerations",
        "nodeAffinity",
        "podAntiAffinity",
        "topologySpreadConstraints",
        "nodeName",
    )


@pytest.mark.parametrize(
    ("text", "what", "cause"),
    [
        ("a: [b", "-- is not YAML", "line 1"),
        ("", "there is no pod in -", ""),
        ("- 1\n- 2\n", "there is no pod in -", ""),
        ("kind: Pod\nspec: {containers: [x, {name: y}]}\n", "asks for a GPU", ""),
        ("spec: {containers: [{resources: {limits: {nvidia.com/gpu: 0}}}]}", "asks for a GPU", ""),
        ("spec: {containers: [{resources: {limits: {nvidia.com/gpu: 500m}}}]}", "whole number", ""),
        (
            "spec: {containers: [{resources: {limits: "
            "{nvidia.com/gpu: 1, nvidia.com/mig-1g.5gb: 1}}}]}",
            "several kinds",
            "nvidia.com/mig-1g.5gb: 1",
        ),
    ],
)
def test_a_bad_manifest_says_what_is_wrong(text: str, what: str, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_pod("-", io.StringIO(text))
    assert what.removeprefix("-- ") in caught.value.what
    assert cause in (caught.value.cause or "")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    with pytest.raises(UsageError, match="can't read") as caught:
        load_pod(str(missing), None)
    assert caught.value.cause == "No such file or directory"
    binary = tmp_path / "image.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="can't read"):
        load_pod(str(binary), None)
    with pytest.raises(UsageError, match="stdin"):
        load_pod("-", None)
