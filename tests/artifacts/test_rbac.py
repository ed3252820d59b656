"""The manifests of `gpuctl export rbac` are well formed, enough, and not more than that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuctl.actions import lease
from gpuctl.artifacts.rbac import INTENTS, LEASE, Account, Purpose, rbac_manifests
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clients.kubernetes.problems import ForbiddenError
from gpuctl.errors import UsageError
from gpuctl.model.settings import KubernetesSettings
from tests.cli.calling import CLOCK, Called, call
from tests.fakes.gpu_cluster import Card, GpuCluster
from tests.fakes.kubernetes import FakeKubernetes, Right
from tests.fakes.kubernetes_answers import BY_KIND, NODES, PODS
from tests.fakes.kubernetes_objects import SHARED, PodSpec, budget_json, node_json
from tests.fakes.prometheus import FakePrometheus

OWN = Account("gpuctl", "gpuctl")
RBAC = "rbac.authorization.k8s.io"
CARDS = (
    Card("gpu-a", 0, 96, 70_000, "prod/chat-5d8f7c-a"),
    Card("gpu-a", 1, 95, 70_000, "prod/kept-5d8f7c-a"),
    Card("gpu-b", 0, 12, 8_000),
)


# -- reading manifests ---------------------------------------------------------------------------


def documents(purpose: Purpose, account: Account = OWN) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(rbac_manifests(purpose, account)))


def rights_of(manifests: list[dict[str, Any]], account: Account = OWN) -> tuple[Right, ...]:
    """What the account may do when these are applied, as the API server works it out."""
    roles = {
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one["rules"]
        for one in manifests
        if one["kind"].endswith("Role")
    }
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
    rights: list[Right] = []
    for one in manifests:
        if not one["kind"].endswith("Binding") or subject not in one["subjects"]:
            continue
        namespace = one["metadata"].get("namespace")
        role = one["roleRef"]
        for rule in roles[role["kind"], namespace, role["name"]]:
            rights += [
                Right(
                    tuple(rule["verbs"]),
                    tuple(rule["resources"]),
                    group,
                    namespace,
                    tuple(rule.get("resourceNames", ())),
                )
                for group in rule["apiGroups"]
            ]
    return tuple(rights)


def single_rights(purpose: Purpose) -> tuple[Right, ...]:
    """The same, one verb each."""
    return tuple(
        replace(right, verbs=(verb,))
        for right in rights_of(documents(purpose))
        for verb in right.verbs
    )


def named(right: Right) -> str:
    return f"{right.verbs[0]}-{right.resources[0]}"


# -- a cluster that notes what it denies ---------------------------------------------------------


@dataclass(slots=True)
class StrictKubernetes(FakeKubernetes):
    """Notes each denial as `verb resource`."""

    denied: list[str] = field(default_factory=list)

    def _authorize(self, user: str, verb: str, target: Any) -> None:
        try:
            FakeKubernetes._authorize(self, user, verb, target)
        except Exception:
            sub = f"/{target.sub}" if target.sub else ""
            self.denied.append(f"{verb} {target.kind.resource}{sub}")
            raise


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with metrics, and calls of gpuctl with an account that has just these rights."""

    fake: StrictKubernetes
    folder: Path
    environ: Mapping[str, str]

    def grant(self, rights: tuple[Right, ...]) -> None:
        self.fake.rights["oncall"] = rights

    def __call__(self, *words: str) -> Called:
        return call(*words, environ=self.environ)

    def evict_with_everything(self) -> tuple[Called, Called]:
        """One pod that goes, from a held node, and one that its budget keeps."""
        gone = self("evict", "--gpu", "gpu-a/0", "--soft-taint", "--yes", "-o", "json")
        kept = self("evict", "--gpu", "gpu-a/1", "--yes", "-o", "json")
        return gone, kept

    def keep_intents(self) -> None:
        """What rebalance and the extender do with the landing intents."""
        settings = KubernetesSettings(kubeconfig=str(self.folder / "kubeconfig"))
        with KubernetesClient(settings, request_timeout=10, environ=self.environ) as client:
            maps = client.config_maps
            assert maps.get("gpuctl", INTENTS) is None
            made = maps.create("gpuctl", INTENTS, {"intents": "[]"})
            maps.update(made, {"intents": "[1]"})
            assert maps.get("gpuctl", INTENTS) is not None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cards = GpuCluster(CARDS)
    with StrictKubernetes(CLOCK.at) as fake, FakePrometheus(cards) as metrics:

        def follow(_: object) -> None:
            """The exporter names the new pod as soon as there is one: nobody has to wait."""
            new = [one["metadata"]["name"] for one in fake.state.all(PODS)]
            name = next((one for one in new if "-new" in one), None)
            if name is not None:
                cards.cards = (*CARDS[1:2], Card("gpu-b", 0, 41, 8_000, f"prod/{name}"))

        fake.intercept = follow  # type: ignore[assignment]
        for node in ("gpu-a", "gpu-b"):
            fake.state.add(NODES, node_json(node, {SHARED: 8}))
        fake.state.settles_at_once = True
        fake.state.landing = lambda pod: "gpu-b"
        for app in ("chat", "kept"):
            fake.state.add_pod(
                PodSpec(
                    f"{app}-5d8f7c-a",
                    owner=("ReplicaSet", f"{app}-5d8f7c"),
                    labels={"app": app, "tier": "inference", "pod-template-hash": "5d8f7c"},
                    requests={SHARED: 1},
                )
            )
        fake.state.add_budget(budget_json("prod", "kept", {"app": "kept"}, max_unavailable=0))
        fake.state.add(BY_KIND["Namespace"], {"metadata": {"name": "gpuctl"}})
        config = tmp_path / "config.yaml"
        config.write_text(
            "current_context: hk\ncontexts:\n  hk:\n    cluster: hk\n"
            f"    prometheus: {{url: {metrics.url}}}\n"
            f"    kubernetes: {{kubeconfig: {fake.kubeconfig(tmp_path)}}}\n"
        )
        environ = {"GPUCTL_CONFIG": str(config), "XDG_STATE_HOME": str(tmp_path / "state")}
        yield Site(fake, tmp_path, environ)


# -- well formed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", Purpose)
def test_every_object_is_what_the_api_takes(purpose: Purpose) -> None:
    versions = {
        "Namespace": "v1",
        "ServiceAccount": "v1",
        **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), f"{RBAC}/v1"),
    }
    found = documents(purpose)
    for one in found:
        assert one["apiVersion"] == versions[one["kind"]]
        cluster_wide = one["kind"] == "Namespace" or one["kind"].startswith("Cluster")
        assert set(one["metadata"]) == ({"name"} if cluster_wide else {"name", "namespace"})
        match one["kind"]:
            case "Role" | "ClusterRole":
                assert set(one) == {"apiVersion", "kind", "metadata", "rules"}
                for rule in one["rules"]:
                    assert set(rule) - {"resourceNames"} == {"apiGroups", "resources", "verbs"}
                    assert all(isinstance(text, str) for part in rule.values() for text in part)
                    assert "*" not in str(rule)
            case "RoleBinding" | "ClusterRoleBinding":
                assert set(one) == {"apiVersion", "kind", "metadata", "roleRef", "subjects"}
                role = one["roleRef"]
                assert role["apiGroup"] == RBAC
                assert role["kind"] == one["kind"].removesuffix("Binding")
                # One that binds a role which is not there grants nothing, without a word.
                assert any(
                    (other["kind"], other["metadata"]) == (role["kind"], one["metadata"])
                    and role["name"] == other["metadata"]["name"]
                    for other in found
                )
    kinds = [one["kind"] for one in found]
    assert kinds[:2] == ["Namespace", "ServiceAccount"], "what others live in comes first"
    assert len({(one["kind"], one["metadata"]["name"]) for one in found}) == len(found)


def test_the_objects_have_the_names_that_gpuctl_uses() -> None:
    assert lease.NAME == LEASE
    names = {right.names for right in rights_of(documents(Purpose.ALL)) if right.names}
    assert names == {(LEASE,), (INTENTS,)}


def test_each_rule_says_what_it_is_for() -> None:
    lines = rbac_manifests(Purpose.ALL, OWN).splitlines()
    rules = [number for number, line in enumerate(lines) if "apiGroups:" in line]
    assert len(rules) == 12
    assert all(lines[number - 1].startswith("  # ") for number in rules)


def test_nothing_in_another_namespace_than_its_own_may_be_written_but_pods_and_nodes() -> None:
    wide = [right for right in rights_of(documents(Purpose.ALL)) if right.namespace is None]
    writes = {
        (verb, *right.resources)
        for right in wide
        for verb in set(right.verbs) - {"get", "list", "watch"}
    }
    assert writes == {("create", "pods/eviction"), ("create", "events"), ("patch", "nodes")}


@pytest.mark.parametrize("name", ["no", "123", "1e3", "null", "a-b", "0x1f"])
def test_names_that_yaml_takes_for_something_else_stay_text(name: str) -> None:
    account = Account(name, name)
    found = documents(Purpose.ALL, account)
    assert found[0]["metadata"]["name"] == name
    assert len(rights_of(found, account)) == 12


@pytest.mark.parametrize(
    "name", ["", "Gpuctl", "a_b", "-a", "a-", "a.b", "a" * 64, "a\nb: c", "a\n", "{a}"]
)
def test_names_that_kubernetes_would_refuse_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="service-account"):
        Account(name, "gpuctl")
    with pytest.raises(UsageError, match="namespace"):
        Account("gpuctl", name)


# -- enough --------------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", Purpose)
def test_a_heatmap_has_what_it_needs(site: Site, purpose: Purpose) -> None:
    site.grant(rights_of(documents(purpose)))
    for view in ("heatmap", "snapshot", "score", "rebalance"):
        called = site(view, *(["--dry-run"] if view == "rebalance" else []))
        assert called.code == 0, called.err
        assert "Kubernetes" not in called.err
    assert site.fake.denied == []
    snapshot = site("snapshot", "-o", "json").document
    assert snapshot["workloads"][0]["owner"] == "Deployment/chat"


def test_an_account_for_views_can_change_nothing(site: Site) -> None:
    site.grant(rights_of(documents(Purpose.VIEWS)))
    before = site.fake.state.version
    called, _ = site.evict_with_everything()
    assert called.code == 7
    assert site.fake.state.evicted == []
    assert site.fake.state.version == before


def test_only_all_may_keep_the_landing_intents(site: Site) -> None:
    site.grant(rights_of(documents(Purpose.EVICT)))
    with pytest.raises(ForbiddenError):
        site.keep_intents()
    site.grant(rights_of(documents(Purpose.ALL)))
    site.fake.denied.clear()
    site.keep_intents()
    assert site.fake.denied == []


# -- no more than that ---------------------------------------------------------------------------


def test_other_leases_and_maps_of_the_namespace_stay_out_of_reach(site: Site) -> None:
    site.grant(rights_of(documents(Purpose.ALL)))
    settings = KubernetesSettings(kubeconfig=str(site.folder / "kubeconfig"))
    with KubernetesClient(settings, request_timeout=10, environ=site.environ) as client:
        for read in (client.leases.get, client.config_maps.get):
            with pytest.raises(ForbiddenError):
                read("gpuctl", "somebody-elses")
            with pytest.raises(ForbiddenError):
                read("prod", LEASE)
