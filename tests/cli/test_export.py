"""`gpuctl export` from the command line."""

from __future__ import annotations

import pytest
import yaml

from gpuctl.actions.lease import NAME as LEASE_NAME
from tests.cli.calling import call


@pytest.mark.parametrize("purpose", ["views", "evict", "all"])
def test_rbac_is_a_stream_of_manifests(purpose: str) -> None:
    called = call("export", "rbac", "--for", purpose)
    assert called.code == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(called.out)]
    assert kinds[:3] == ["Namespace", "ServiceAccount", "ClusterRole"]


def test_views_may_only_list() -> None:
    documents = yaml.safe_load_all(call("export", "rbac", "--for", "views").out)
    rules = [rule for document in documents for rule in document.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}


def test_evicting_needs_no_delete_and_names_its_lease() -> None:
    documents = list(yaml.safe_load_all(call("export", "rbac", "--for", "evict").out))
    rules = [rule for document in documents for rule in document.get("rules", ())]
    assert not any("delete" in rule["verbs"] for rule in rules)
    assert any(LEASE_NAME in rule.get("resourceNames", ()) for rule in rules)


def test_the_pve_role_has_the_rights_that_a_migration_asks_for() -> None:
    called = call("export", "pve-role")
    assert called.code == 0
    for right in ("VM.Migrate", "VM.Audit", "Sys.Audit", "Datastore.Audit", "Mapping.Audit"):
        assert right in called.out
    assert "VM.Migrate" not in call("export", "pve-role", "--for", "views").out
