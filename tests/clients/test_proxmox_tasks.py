"""Tasks of Proxmox VE: their state, their log, and stopping them."""

from __future__ import annotations

import pytest

from gpuctl.clients.proxmox import MigrateOptions, ProxmoxError, Trouble, parse_upid
from gpuctl.errors import UsageError
from gpuctl.policy.migration.task_log import LogReading, read_log
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


@pytest.mark.parametrize("release", ["7.4", "8.4", "9.2"])
def test_a_migration_can_be_followed_line_by_line(open_pve: OpenCluster, release: str) -> None:
    fake, client = open_pve(release)
    upid = client.start_migration(ONE, 104, TWO, LIVE)
    reading, fractions = LogReading(), [0.0]
    while client.task_status(upid).is_running:
        fake.advance(upid.text)
        reading = read_log(client.task_log_after(upid, reading.lines), reading)
        fractions.append(reading.fraction or 0.0)
    assert fractions == sorted(fractions)
    assert len(set(fractions)) > 10
    assert (reading.result, reading.has_moved) == ("ok", True)
    assert reading.downtime_seconds == pytest.approx(0.073)
    assert reading.duration_seconds == fake.cluster.now - upid.started_at
    (row,) = (row for row in client.resources("vm") if row.vmid == 104)
    assert (row.node, row.lock) == (TWO, None)
    assert client.vm_status(TWO, 104).qmpstatus == "running"


def test_what_ha_was_asked_for_is_a_second_task_of_its_own(open_pve: OpenCluster) -> None:
    fake, client = open_pve()
    request = client.start_migration(TWO, 108, "gpu-node-3", LIVE)
    fake.finish(request.text)
    assert client.task_status(request).succeeded is True
    assert client.vm_status(TWO, 108).ha.state == "started"
    known = client.migration_tasks(TWO, 108)
    (begun,) = fake.ha_round()
    assert client.vm_status(TWO, 108).ha.state == "migrate"
    found = client.started_since(TWO, 108, known)
    assert found is not None
    assert (found.text, found.type, found.user) == (begun, "qmigrate", "root@pam")
    fake.finish(begun)
    assert read_log(client.task_log_after(found, 0)).by_ha
    assert client.vm_status("gpu-node-3", 108).ha.state == "started"
