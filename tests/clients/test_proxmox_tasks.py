"""Tasks of Proxmox VE: their state, their log, and stopping them."""

from __future__ import annotations

import pytest

from gpuctl.clients.proxmox import MigrateOptions, ProxmoxError, Trouble, parse_upid
from gpuctl.errors import UsageError
from tests.clients.proxmox_clients import OpenCluster, refused, says

LIVE = MigrateOptions(online=True)
ONE, TWO = "gpu-node-1", "gpu-node-2"


def test_a_log_is_read_page_by_page_and_from_where_one_was(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    fake.cluster.vms[104].memory_mib = 1200 << 10
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    assert client.task_log_after(upid, 0) == ()
    fake.finish(upid.text)
    lines = client.task_log_after(upid, 0)
    assert list(lines) == fake.only_task().lines
    assert len(lines) > 1000
    assert client.task_log_after(upid, 1000) == lines[1000:]
    assert client.task_log_tail(upid, 3) == lines[-3:]
    assert client.task_log_tail(upid, 5000) == lines


def test_a_task_is_asked_for_on_its_own_node(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    fake.finish(upid.text)
    assert client.task_status(upid).succeeded is True
    moved = parse_upid(upid.text.replace(ONE, TWO))
    assert refused(lambda: client.task_status(moved)).kind is Trouble.NO_SUCH_TASK
    assert refused(lambda: client.task_log_after(moved, 0)).kind is Trouble.NO_SUCH_TASK


@pytest.mark.parametrize(
    ("migration", "succeeded"),
    [
        ("succeeds", True),
        ("warns", True),
        ("breaks", False),
        ("cleanup-fails", False),
        ("is-killed", None),
    ],
)
def test_what_an_end_means(open_pve: OpenCluster, migration: str, succeeded: bool | None) -> None:
    fake, client = open_pve()
    fake.cluster.vms[104].migration = migration
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    assert client.task_status(upid).succeeded is None
    fake.finish(upid.text)
    status = client.task_status(upid)
    assert not status.is_running
    assert status.succeeded is succeeded


def test_stopping_a_task(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    fake.advance(upid.text, 8)
    assert [row.upid for row in client.running_migrations(ONE)] == [upid.text]
    client.stop_task(upid)
    assert client.task_status(upid).succeeded is False
    assert client.running_migrations(ONE) == ()
    assert client.vm_status(ONE, 104).lock is None


@pytest.mark.parametrize("text", ["", "UPID:", "qmigrate", "UPID:a b:1:2:3:x:1:u:", "UPID:x" * 90])
def test_texts_that_are_no_upid(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_upid(text)
    assert "is not a UPID" in says(caught.value)


def test_errors_are_errors_of_a_backend() -> None:
    assert ProxmoxError("x", kind=Trouble.OTHER).exit_code == 7
