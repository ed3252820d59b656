"""The Proxmox VE client when an endpoint fails: reads go on elsewhere, writes do not."""

from __future__ import annotations

import pytest

from gpuctl.clients.proxmox import MigrateOptions, Trouble
from gpuctl.errors import UsageError
from tests.clients.proxmox_clients import OpenCluster, client_of, refused, says
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import Reply
from tests.fakes.proxmox import SECRET, FakeProxmox

LIVE = MigrateOptions(online=True)
ONE, TWO = "gpu-node-1", "gpu-node-2"
CUT_JSON = Reply(body=b'{"data": {"version": "9.', until_close=True)
LOGIN_PAGE = Reply(body=b"<!doctype html><title>Log in</title>", content_type="text/html")
DEAD = Reply(595, reason="Connection refused")
SILENT = Reply(596, reason="Connection timed out")


@pytest.mark.parametrize(
    "broken",
    [
        Reply(drop=True),
        Reply(502, b"<html>bad gateway", content_type="text/html"),
        Reply(body=b'{"data": {"version": "9.2"}}', cut_at=10),
        *(CUT_JSON, LOGIN_PAGE, DEAD, SILENT),
        Reply(302, headers={"Location": "https://login.example/"}),
        Reply(body=b""),
    ],
)
def test_a_read_goes_to_the_next_endpoint(open_pve: OpenCluster, broken: Reply) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/version", broken)
    assert client.version().number == (9, 2)
    assert [len(server.requests) for server in fake.servers] == [1, 1]


def test_the_endpoint_that_answered_is_asked_first_from_then_on(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.endpoint_down(0)
    client.version()
    client.version()
    assert len(fake.servers[1].requests) == 2


@pytest.mark.parametrize(
    ("broken", "count"),
    [(Reply(drop=True), 3), (Reply(503, b"busy"), 3), (DEAD, 2), (SILENT, 2)],
)
def test_a_second_round_is_for_endpoints_and_not_for_the_node_behind_them(
    open_pve: OpenCluster, broken: Reply, count: int
) -> None:
    fake, client = open_pve()
    fake.fail("GET", "/version", broken, times=2)
    if count == 3:
        assert client.version().version == "9.2"
    else:
        assert refused(client.version).is_passing
    assert len(fake.requests) == count


@pytest.mark.parametrize("proxy", ["http://me:hush-hush@127.0.0.1:1", "socks9://me:hush-hush@x:1"])
def test_a_proxy_that_does_not_work(authority: CertificateAuthority, proxy: str) -> None:
    fake = FakeProxmox(count=0)
    settings = {"endpoints": ("https://pve.example:8006",)}
    environ = {"PVE_TOKEN": SECRET, "https_proxy": proxy}
    with client_of(fake, authority, environ=environ, **settings) as client:
        problem = refused(lambda: client.start_migration(ONE, 104, TWO, LIVE))
    assert problem.kind is Trouble.UNREACHABLE
    assert not problem.may_have_run
    assert "NO_PROXY" in says(problem)
    assert "hush" not in says(problem)


def test_when_none_answers_each_reason_is_told(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.endpoint_down(0)
    fake.endpoint_down(1)
    problem = refused(client.version)
    assert problem.kind is Trouble.UNREACHABLE
    assert problem.is_passing
    assert "none of 2 endpoints" in says(problem)
    assert all(url in says(problem) for url in fake.endpoints)
    assert "connection refused" in says(problem)


def test_a_refusal_is_an_answer_and_not_asked_elsewhere(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    refused(lambda: client.vm_config(ONE, 999))
    assert len(fake.requests) == 1


def test_a_name_that_does_not_exist(open_pve: OpenCluster, authority: CertificateAuthority) -> None:
    fake, _ = open_pve()
    with client_of(fake, authority, endpoints=("https://no-such-host.invalid:8006",)) as client:
        problem = refused(client.version)
    assert "can't find the address" in says(problem)


def test_a_write_moves_on_when_nothing_was_sent(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.endpoint_down(0)
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    assert (upid.node, upid.type, upid.id) == (ONE, "qmigrate", "104")


@pytest.mark.parametrize(
    "answer",
    [
        Reply(drop=True),
        SILENT,
        Reply(504, b"<html>", content_type="text/html"),
        *(CUT_JSON, LOGIN_PAGE),
    ],
)
def test_a_write_whose_answer_is_lost_is_not_repeated_but_found(
    open_pve: OpenCluster, answer: Reply
) -> None:
    fake, client = open_pve()
    known = client.migration_tasks(ONE, 104)
    fake.fail("POST", "/migrate", answer, accepted=True)
    problem = refused(lambda: client.start_migration(ONE, 104, TWO, LIVE))
    assert problem.may_have_run
    assert len(fake.sent("POST")) == 1
    found = client.started_since(ONE, 104, known)
    assert found is not None
    assert found.text == fake.only_task().upid


def test_a_write_that_never_came_is_not_found(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.fail("POST", "/migrate", Reply(drop=True))
    assert refused(lambda: client.start_migration(ONE, 104, TWO, LIVE)).may_have_run
    assert client.started_since(ONE, 104, frozenset()) is None
    assert client.vm_status(ONE, 104).lock is None


@pytest.mark.parametrize("answer", [DEAD, Reply(503, b"busy")])
def test_a_write_that_surely_did_not_run_says_so(open_pve: OpenCluster, answer: Reply) -> None:
    fake, client = open_pve()
    fake.fail("POST", "/migrate", answer)
    assert not refused(lambda: client.start_migration(ONE, 104, TWO, LIVE)).may_have_run
    assert len(fake.sent("POST")) == 1


def test_an_older_migration_is_not_taken_for_the_lost_one(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[104].migration = "breaks"
    fake.finish(client.start_migration(ONE, 104, TWO, LIVE).text)
    known = client.migration_tasks(ONE, 104)
    assert len(known) == 1
    assert client.started_since(ONE, 104, known) is None


@pytest.mark.parametrize(
    "options",
    [MigrateOptions(migration_network="10.0.0.0/8"), MigrateOptions(migration_type="insecure")],
)
def test_options_of_root_are_refused_before_anything_is_asked(
    open_pve: OpenCluster, options: MigrateOptions
) -> None:
    fake, client = open_pve()
    with pytest.raises(UsageError) as caught:
        client.start_migration(ONE, 104, TWO, options)
    assert "datacenter.cfg" in says(caught.value)
    assert fake.requests == []


def test_what_is_sent(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[105].ha_state = None
    options = MigrateOptions(
        online=True, with_local_disks=True, target_storage="local-fast", bwlimit_kib=0
    )
    client.start_migration(ONE, 105, TWO, options)
    (sent,) = (request for request in fake.requests if request.method == "POST")
    assert dict(sent.params) == {
        "target": TWO,
        "online": "1",
        "with-local-disks": "1",
        "targetstorage": "local-fast",
        "bwlimit": "0",
    }
