"""Which node, device and workload the labels of a sample name."""

from __future__ import annotations

import pytest

from gpuctl.metrics.labels import LabelRules, without_port
from gpuctl.model.settings import LabelSettings

PLAIN = LabelRules()


def rules(**settings: object) -> LabelRules:
    return LabelRules.of(LabelSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"Hostname": "n1", "instance": "10.0.0.1:9400"}, "n1"),
        ({"hostname": "n1", "instance": "10.0.0.1:9400"}, "n1"),
        ({"Hostname": "pod-a", "node": "n1"}, "n1"),
        ({"Hostname": "x", "kubernetes_node": "n1"}, "n1"),
        ({"Hostname": "x", "nodename": "n1"}, "n1"),
        ({"node": "n1", "kubernetes_node": "n2"}, "n1"),
        ({"Hostname": "localhost", "instance": "n1:9400"}, "n1"),
        ({"Hostname": "127.0.0.1", "instance": "n1:9400"}, "n1"),
        ({"Hostname": "dcgm-exporter-6ldbb", "instance": "10.1.2.3:9400"}, "10.1.2.3"),
        ({"Hostname": "nvidia-dcgm-exporter-cwbcm", "node": "n1"}, "n1"),
        ({"Hostname": "dcgm-exporter-1605728000-x2x4k", "instance": "n1:9400"}, "n1"),
        ({"Hostname": "gpu-metrics-x7f2k", "pod": "gpu-metrics-x7f2k", "node": "n1"}, "n1"),
        (
            {"Hostname": "gpu-metrics-x7f2k", "pod": "gpu-metrics-x7f2k", "instance": "n1:9400"},
            "n1",
        ),
        ({"Hostname": "dcgm-exporter-6ldbb", "instance": "127.0.0.1:9400"}, "dcgm-exporter-6ldbb"),
        ({"Hostname": "", "instance": "[2001:db8::1]:9400"}, "2001:db8::1"),
        ({"Hostname": "<<<NULL>>>", "instance": "n1:9400"}, "n1"),
        ({"instance": "gpu-7"}, "gpu-7"),
        ({}, None),
    ],
)
def test_node_is_the_first_label_that_can_name_one(
    labels: dict[str, str], node: str | None
) -> None:
    assert PLAIN.node(labels) == node


def test_configured_labels_come_first_and_mean_every_spelling() -> None:
    configured = rules(node=("node", "Hostname", "instance"))
    old = {"Hostname": "n1", "instance": "10.0.0.1:9400"}
    renamed = {"hostname": "n1", "instance": "10.0.0.1:9400"}
    assert configured.node(old) == configured.node(renamed) == "n1"
    assert rules(node=("rack_host",)).node({"rack_host": "r9", "node": "n1"}) == "r9"
    assert rules(node=("instance",)).node({"instance": "n1:9400", "node": "x"}) == "n1"


@pytest.mark.parametrize("key", ["10.0.0.1", "10.0.0.1:9400"])
def test_node_map_takes_an_address_with_and_without_its_port(key: str) -> None:
    assert rules(node_map={key: "n1"}).node({"instance": "10.0.0.1:9400"}) == "n1"


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("n1:9400", "n1"),
        ("n1", "n1"),
        ("[::1]:9400", "::1"),
        ("fe80::1", "fe80::1"),
        ("a:b", "a:b"),
    ],
)
def test_port_is_cut_off_an_instance(instance: str, host: str) -> None:
    assert without_port(instance) == host


def workload(rule: LabelRules, labels: dict[str, str], *, exported: bool = False) -> str | None:
    found = rule.workload(labels, exported=exported)
    return None if found is None else found.id


EXPORTED = {"exported_pod": "llm-0", "exported_namespace": "prod"}
EXPORTER = {"pod": "nvidia-dcgm-exporter-q8w2x", "namespace": "gpu-operator"}


def test_exported_labels_name_the_workload_beside_the_exporters_own() -> None:
    assert workload(PLAIN, EXPORTED | EXPORTER, exported=True) == "prod/llm-0"
    assert workload(PLAIN, EXPORTER, exported=True) is None


def test_in_a_job_that_moves_labels_aside_plain_pod_is_the_exporter() -> None:
    assert workload(PLAIN, {"pod": "odd-name-0", "namespace": "mon"}, exported=True) is None
    groups = PLAIN.exported_groups([{"job": "a", "exported_pod": "x"}, {"job": "b", "pod": "y"}])
    assert groups == {("", "a")}


@pytest.mark.parametrize(
    "labels",
    [
        EXPORTER,
        {"pod": "gpu-metrics-x7f2k", "container": "dcgm-exporter"},
        {"pod": "gpu-metrics-x7f2k", "namespace": "mon", "Hostname": "gpu-metrics-x7f2k"},
        {"pod": "", "namespace": "", "container": ""},
        {"exported_pod": "", "exported_namespace": ""},
    ],
)
def test_neither_the_exporter_nor_an_empty_label_is_a_workload(labels: dict[str, str]) -> None:
    assert workload(PLAIN, labels) is None


def test_mode_exported_believes_only_exported_labels() -> None:
    strict = rules(workload="exported")
    assert workload(strict, {"pod": "llm-0", "namespace": "prod"}) is None
    assert workload(strict, EXPORTED) == "prod/llm-0"


def test_mode_plain_believes_only_plain_labels() -> None:
    plain = rules(workload="plain")
    both = {"exported_pod": "x", "exported_namespace": "y", "pod": "llm-0", "namespace": "prod"}
    assert workload(plain, both) == "prod/llm-0"
    assert workload(plain, EXPORTED) is None


def test_old_pod_name_label_is_the_workload_although_pod_names_the_exporter() -> None:
    old = {"pod_name": "bert-0", "pod_namespace": "ml", "container_name": "main", **EXPORTER}
    found = PLAIN.workload(old, exported=False)
    assert found is not None
    assert (found.id, found.container) == ("ml/bert-0", "main")


def test_an_alias_takes_over_a_label_that_a_site_renamed() -> None:
    renamed = rules(aliases={"exported_pod": ("gpu_user",), "UUID": ("card",)})
    assert workload(renamed, {"gpu_user": "llm-0", "exported_namespace": "prod"}) == "prod/llm-0"
    assert renamed.get({"card": "GPU-9"}, "uuid") == "GPU-9"


def test_a_job_of_a_batch_system_is_a_workload() -> None:
    found = PLAIN.workload({"hpc_job": "4711"}, exported=False)
    assert found is not None
    assert (found.id, found.kind) == ("job/4711", "job")
