"""The fake API server answers word for word as a real one did (tests/data/kubernetes)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes import TOKEN, FakeKubernetes
from tests.fakes.kubernetes_answers import BUDGETS, BY_KIND, OVERLOAD, PODS
from tests.fakes.kubernetes_objects import PodSpec, budget_json, node_json
from tests.fakes.kubernetes_recordings import NOON, recorded

Setup = Callable[[FakeKubernetes], None]
LEASES = BY_KIND["Lease"]

_VARYING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r'"resourceVersion": "\d+"', '"resourceVersion": "N"'),
    (r'"(creationTimestamp|deletionTimestamp|db-0)": "[^"]+"', r'"\1": "T"'),
    (r"in record \(\d+\)", "in record (N)"),
    (r"current: \d+", "current: N"),
    (r"version: (\d+) \(\d+\)", r"version: \1 (N)"),
    (r'"continue": "[^"]+"', '"continue": "TOKEN"'),
)


def same(value: Any) -> Any:
    """A body without what differs from run to run."""
    text = json.dumps(value)
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text)
    return json.loads(text)


def core(body: Any) -> Any:
    """A body without what old clients want, and without the controllers' own conditions."""
    kept = {key: value for key, value in body.items() if not key.startswith("deprecated")}
    if isinstance(kept.get("status"), dict):
        kept["status"] = {k: v for k, v in kept["status"].items() if k != "conditions"}
    return kept


def replay(fake: FakeKubernetes, request: dict[str, Any], token: str | None = TOKEN) -> Reply:
    """What the fake answers to a recorded request."""
    parts = urlsplit(request["path"])
    headers = {"accept": request.get("accept", "application/json")}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    if "contentType" in request:
        headers["content-type"] = request["contentType"]
    body = request.get("body", "")
    sent = body if isinstance(body, str) else json.dumps(body)
    return fake._answer(Request(request["method"], parts.path, parts.query, headers, sent.encode()))


def fake() -> FakeKubernetes:
    made = FakeKubernetes(NOON)
    made.tokens |= {
        "norights": "system:serviceaccount:rig:norights",
        "evictor": "system:serviceaccount:rig:evictor",
    }
    for namespace in ("rig", "evict-lab", "list-lab"):
        made.state.add(BY_KIND["Namespace"], {"metadata": {"name": namespace}})
    return made


def pod(*names: str, namespace: str = "evict-lab", **more: Any) -> Setup:
    def add(made: FakeKubernetes) -> None:
        for name in names:
            made.state.add_pod(PodSpec(name, namespace, **more))

    return add


def budget(name: str, app: str, namespace: str = "evict-lab", **more: Any) -> Setup:
    processed = more.pop("processed", True)

    def add(made: FakeKubernetes) -> None:
        made.state.add_budget(
            budget_json(namespace, name, {"app": app}, **more), processed=processed
        )

    return add


def evicted(name: str, namespace: str, uid: str | None = None) -> Setup:
    def evict(made: FakeKubernetes) -> None:
        request = {
            "method": "POST",
            "path": f"/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "contentType": "application/json",
            "body": {
                "metadata": {"name": name},
                "deleteOptions": {"preconditions": {"uid": uid}} if uid else {},
            },
        }
        assert replay(made, request).status == (409 if uid else 201)

    return evict


def lease(made: FakeKubernetes) -> None:
    spec = recorded("lease-create-201")["request"]["body"]["spec"]
    made.state.add(LEASES, {"metadata": {"name": "rig-lock", "namespace": "rig"}, "spec": spec})


def listed(made: FakeKubernetes) -> None:
    pod(*(f"l{i:02}" for i in range(12)), "mig", namespace="list-lab")(made)


DRY = pod("dry")
WEB = pod("web-bd8db689f-dvpn6", "web-2", "web-3", labels={"app": "web"})
DB = pod(
    "db-0",
    "db-1",
    "db-2",
    namespace="evict-lab2",
    labels={"app": "db"},
    owner=("StatefulSet", "db"),
)
WRONG_UID = "00000000-0000-0000-0000-000000000000"
DB_BUDGET = budget("db", "db", "evict-lab2", min_available=2)

EVICTIONS: dict[str, tuple[Setup, ...]] = {
    "evict-201": (pod("plain"),),
    "evict-201-unready-alwaysallow": (
        pod("sick-1", labels={"app": "sick"}, ready=False),
        budget("sick-pdb", "sick", min_available=1, unhealthy="AlwaysAllow"),
    ),
    "evict-400-bad-json": (DRY,),
    "evict-400-name-mismatch": (DRY,),
    "evict-400-namespace-mismatch": (DRY,),
    "evict-400-unknown-field-strict": (DRY,),
    "evict-400-wrong-kind": (DRY,),
    "evict-403-namespace-terminating": (lambda made: made.state.namespaces_ending.add("dying"),),
    "evict-404": (DRY,),
    "evict-404-namespace": (DRY,),
    "evict-409-resourceversion": (DRY,),
    "evict-409-uid": (DRY,),
    "evict-409-uid-dryrun": (DRY,),
    "evict-415": (DRY,),
    "evict-422-bad-delete-options": (DRY,),
    "evict-429-pdb": (WEB, budget("web-pdb", "web", min_available=3)),
    "evict-429-pdb-dryrun": (WEB, budget("web-pdb", "web", min_available=3)),
    "evict-429-pdb-bare-pods": (
        pod("bare-1", labels={"app": "bare"}),
        budget("bare-pdb", "bare", max_unavailable=1),
    ),
    "evict-429-pdb-not-processed": (
        pod("bare-1", labels={"app": "bare"}),
        budget("bare-pdb", "bare", max_unavailable=1, processed=False),
    ),
    "evict-429-pdb-used-up": (DB, DB_BUDGET, evicted("db-2", "evict-lab2")),
    "evict-429-pdb-budget-burnt": (DB, DB_BUDGET, evicted("db-0", "evict-lab2", WRONG_UID)),
    "evict-429-unready-default-policy": (
        pod("sick-1", labels={"app": "sick"}, ready=False),
        budget("sick-pdb", "sick", min_available=1),
    ),
    "evict-500-two-pdbs": (
        pod("web-bd8db689f-8g66m", labels={"app": "web"}),
        budget("web-pdb", "web", min_available=0),
        budget("web-pdb-2", "web", min_available=0),
    ),
    "evict-dryrun-bad-value": (DRY,),
    "evict-dryrun-bad-value-body": (DRY,),
    "evict-dryrun-query": (DRY,),
    "evict-empty-body": (DRY,),
    "evict-finished-pod": (pod("done", phase="Succeeded"),),
    "evict-grace": (pod("grace"),),
    "evict-no-kind": (DRY,),
    "evict-pending-pod": (),
    "evict-terminating-pod": (pod("plain"), evicted("plain", "evict-lab")),
    "evict-unknown-field-warning": (DRY,),
    "evict-v1beta1-body": (DRY,),
}

OTHERS: dict[str, tuple[Setup, ...]] = {
    "event-201": (),
    "event-422-missing": (),
    "event-422-node-namespace": (),
    "event-422-note-too-long": (),
    "lease-400-time-format": (lease,),
    "lease-422-duration": (lease,),
    "lease-422-update-without-resourceversion": (lease,),
    "lease-create-201": (),
    "lease-create-409-exists": (lease,),
    "lease-get-404": (),
    "lease-update-409-conflict": (lease,),
    "list-400-bad-continue": (listed,),
    "list-400-field-selector": (listed,),
    "list-400-continue-with-resourceversion": (listed,),
    "list-410-exact-old": (listed,),
    "list-410-expired-continue": (listed,),
    "list-504-future-resourceversion": (listed,),
    "pdb-status-after-409": (DB, DB_BUDGET, evicted("db-0", "evict-lab2", WRONG_UID)),
    "pdb-status-after-eviction": (DB, DB_BUDGET, evicted("db-2", "evict-lab2")),
    "ssar-denied": (),
}

STRANGERS = {
    "evict-401": "forged",
    "evict-403-anonymous": None,
    "evict-403-rbac": "norights",
    "event-403": "norights",
    "lease-403-other-name": "evictor",
    "list-403-rbac": "norights",
    "ssar-denied": "norights",
}


@pytest.mark.parametrize("name", [*EVICTIONS, *OTHERS, *STRANGERS])
def test_an_answer_is_the_recorded_one(name: str) -> None:
    made = fake()
    recording = recorded(name)
    if name == "evict-pending-pod":
        waiting = recording["request"]["path"].split("/")[-2]
        pod(waiting, node=None)(made)
    if name == "evict-finished-pod":
        pod(recording["request"]["path"].split("/")[-2], phase="Succeeded")(made)
    for setup in (EVICTIONS | OTHERS).get(name, ()):
        setup(made)
    reply = replay(made, recording["request"], STRANGERS.get(name, TOKEN))
    expected = recording["response"]
    assert reply.status == expected["status"]
    assert reply.content_type == expected["headers"]["Content-Type"]
    for header in ("Retry-After", "Warning"):
        assert reply.headers.get(header) == expected["headers"].get(header), header
    assert core(same(json.loads(reply.body))) == core(same(expected["body"]))


def test_pages_are_the_recorded_ones() -> None:
    made = fake()
    listed(made)
    path = recorded("list-page1")["request"]["path"]
    token = ""
    for name in ("list-page1", "list-page2", "list-page3"):
        query = f"&continue={token}" if token else ""
        reply = replay(made, {"method": "GET", "path": path + query})
        body, wanted = json.loads(reply.body), recorded(name)["response"]["body"]
        token = body["metadata"].get("continue", "")
        names = [[item["metadata"]["name"] for item in one["items"]] for one in (body, wanted)]
        assert names[0] == names[1]
        assert same(body["metadata"]) == same(wanted["metadata"])
        assert (body["kind"], body["apiVersion"]) == (wanted["kind"], wanted["apiVersion"])
        assert not {"kind", "apiVersion"} & set(body["items"][0])


def test_the_lease_goes_from_hand_to_hand_as_recorded() -> None:
    made = fake()
    for name in ("lease-create-201", "lease-renew-200", "lease-takeover-200", "lease-release-200"):
        recording = recorded(name)
        request = recording["request"]
        known = made.state.get(LEASES, "rig-lock", "rig")
        if known is not None:
            request["body"]["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            request["body"]["metadata"].pop("managedFields", None)
        reply = replay(made, request)
        assert reply.status == recording["response"]["status"]
        assert same(json.loads(reply.body)) == same(recording["response"]["body"])


def test_an_evicted_pod_is_marked_as_recorded() -> None:
    made = fake()
    pod("plain")(made)
    evicted("plain", "evict-lab")(made)
    found, wanted = made.state.get(PODS, "plain", "evict-lab"), recorded("evict-201-pod-after")
    assert found is not None
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert found["metadata"]["deletionTimestamp"] == "2026-12-01T12:00:30Z"
    mark, recorded_mark = found["status"]["conditions"][-1], wanted["status"]["conditions"][-1]
    assert {**mark, "lastTransitionTime": ""} == {**recorded_mark, "lastTransitionTime": ""}


def test_a_burnt_budget_comes_back_after_two_minutes() -> None:
    made = fake()
    for setup in (DB, DB_BUDGET, evicted("db-0", "evict-lab2", WRONG_UID)):
        setup(made)
    allowed = []
    for seconds in (0, 119, 1):
        made.state.step(seconds)
        numbers = made.state.get(BUDGETS, "db", "evict-lab2")
        assert numbers is not None
        allowed.append(numbers["status"]["disruptionsAllowed"])
    assert allowed == [0, 0, 1]
    assert made.state.evicted == []


def test_a_watch_from_too_far_back_is_told_so_as_recorded() -> None:
    made = fake()
    made.state.oldest_version = made.state.version
    reply = replay(made, {"method": "GET", "path": "/api/v1/pods?watch=1&resourceVersion=1"})
    assert reply.stream is not None
    lines = [json.loads(line) for line in reply.stream]
    assert reply.status == 200
    assert same(lines) == same(recorded("watch-410")["events"])


def test_overload_is_plain_text_as_recorded() -> None:
    wanted = recorded("429-overload")["response"]
    assert OVERLOAD.body.decode() == wanted["body"]
    assert OVERLOAD.content_type == wanted["headers"]["Content-Type"]
    assert OVERLOAD.headers["Retry-After"] == wanted["headers"]["Retry-After"]


def test_objects_have_the_recorded_shape() -> None:
    made = fake()
    pod("l00", namespace="list-lab")(made)
    made.state.add(BY_KIND["Node"], node_json("gpu-node-1", {"nvidia.com/gpu": 4}))
    paths = {"pod": "/api/v1/namespaces/list-lab/pods/l00", "node": "/api/v1/nodes/gpu-node-1"}
    for name, path in paths.items():
        body = json.loads(replay(made, {"method": "GET", "path": path}).body)
        wanted = recorded(name)["response"]["body"]
        assert set(body) == set(wanted)
        for part in ("metadata", "spec", "status"):
            unknown = set(body[part]) - set(wanted[part])
            assert not unknown, (name, part)
    version = json.loads(replay(made, {"method": "GET", "path": "/version"}).body)
    recorded_version = recorded("version")["response"]["body"]
    assert version["gitVersion"] == recorded_version["gitVersion"]
