"""Migrations against the fake Proxmox VE over HTTPS: how they end, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gpuctl.actions.journal import read_journal
from gpuctl.clients.proxmox import MigrateOptions
from gpuctl.model.migration import Wish
from tests.actions.migrating import FOLLOW, ONE, THREE, TWO, Night, only
from tests.actions.playing import NOON, Killed
from tests.clients.proxmox_clients import OpenCluster, clusters
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.http_server import Reply, Request, ServerTls
from tests.fakes.proxmox import SECRET, FakeProxmox, Fault

MIGRATE = r"/migrate$"
STATUS = r"/tasks/.*/status$"
SILENT = Reply(596, reason="Connection timed out")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def pve_tls(authority: CertificateAuthority) -> ServerTls:
    pair = authority.issue("pve")
    return ServerTls(pair.cert, pair.key)


@pytest.fixture
def open_pve(authority: CertificateAuthority, pve_tls: ServerTls) -> Iterator[OpenCluster]:
    with clusters(authority, pve_tls) as make:
        yield make


@pytest.fixture
def night(open_pve: OpenCluster, tmp_path: Path) -> Night:
    return Night(*open_pve(), tmp_path)


def once(number: int, act: Callable[[], object]) -> Callable[[int], None]:
    """Do it at the pause of that number."""
    return lambda n: act() and None if n == number else None


# -- it goes well --------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["7.4", "8.2", "8.4", "9.2"])
def test_a_vm_is_moved_and_runs_on_the_target(
    open_pve: OpenCluster, tmp_path: Path, release: str
) -> None:
    night = Night(*open_pve(release), tmp_path)
    outcome = night.migrate("web-plain", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (0, "done", True)
    assert step.landed is not None
    assert step.landed.node == TWO
    assert step.detail["downtime_seconds"] == 0.073
    assert "downtime 73 ms" in step.reason
    assert isinstance(step.detail["duration_seconds"], int)
    assert len(night.posts) == 1
    assert any("GiB/s" in line and "of 16.0 GiB" in line for line in night.said)


def test_the_journal_knows_the_upid_before_the_wait_begins(night: Night) -> None:
    def check(number: int) -> None:
        if number == 1:
            events = [
                (r.event, r.data.get("upid")) for r in read_journal(night.journal_path).records
            ]
            assert events[-2:] == [("sending", None), ("answered", night.fake.only_task().upid)]

    night.on_pause = check
    assert night.migrate("104", TWO).exit_code == 0
    assert night.pauses


def test_a_mapped_vgpu_is_moved(night: Night) -> None:
    assert only(night.migrate("101", TWO)).status == "done"


def test_a_stopped_vm_is_moved_and_stays_stopped(night: Night) -> None:
    step = only(night.migrate("112", ONE))
    assert (step.status, night.fake.cluster.vms[112].node) == ("done", ONE)
    assert "stopped on" in step.reason


def test_without_waiting_it_is_only_started(night: Night) -> None:
    outcome = night.migrate("104", TWO, wait=False)
    step = only(outcome)
    upid = night.fake.only_task().upid
    assert (outcome.exit_code, step.status, step.landed) == (0, "done", None)
    assert step.detail["upid"] == upid
    assert f"{FOLLOW} '{upid}'" in step.reason
    assert night.pauses == []


def test_a_task_with_warnings_has_moved_it(night: Night) -> None:
    night.fake.cluster.vms[104].migration = "warns"
    step = only(night.migrate("104", TWO))
    assert step.status == "done"
    assert "could not remove an old snapshot" in step.reason


def test_a_task_that_fails_after_the_move_is_told_with_the_move(night: Night) -> None:
    night.fake.cluster.vms[104].migration = "cleanup-fails"
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (0, "done")
    assert f"left-overs on {ONE}" in only(outcome).reason


# -- it is refused -------------------------------------------------------------------------------


def test_raw_passthrough_is_refused_with_what_to_do_instead(night: Night) -> None:
    outcome = night.migrate("train-raw-h100", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (5, "refused", False)
    assert "0000:52:00" in step.reason
    assert "mapped vGPU" in step.reason
    assert "drain" in step.reason
    assert night.posts == []


def test_a_lock_that_came_after_the_question_stops_it(night: Night) -> None:
    cluster, wish = night.cluster("104"), Wish(target=TWO)
    appraisal = cluster.appraise(wish)
    assert appraisal.refusals == ()
    step = cluster.step(appraisal)
    night.fake.cluster.vms[104].lock = "backup"
    outcome = night.carry_out(step, cluster.actuator(wish, step))
    assert outcome.exit_code == 5
    assert "locked (backup)" in only(outcome).reason
    assert night.posts == []


def test_a_refusal_of_the_call_itself_leaves_nothing_in_flight(night: Night) -> None:
    reply = Reply(500, b'{"data":null}', reason="VM is locked (snapshot)")
    night.fake.fail("POST", MIGRATE, reply)
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (5, "refused")
    assert "snapshot" in only(outcome).reason
    assert [run.open_steps for run in night.runs()] == [[]]


def test_a_vm_that_is_there_already_is_left_alone(night: Night) -> None:
    outcome = night.migrate("104", ONE)
    assert (outcome.exit_code, only(outcome).status) == (0, "unchanged")
    assert night.posts == []


# -- it fails ------------------------------------------------------------------------------------


def test_a_task_that_fails_gives_its_reason_and_its_last_lines(night: Night) -> None:
    night.fake.cluster.vms[104].migration = "breaks"
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (7, "failed", False)
    assert "Unable to write to socket: Broken pipe" in step.reason
    assert f"still running on {ONE}" in step.reason
    lines = str(step.detail["log"]).splitlines()
    assert len(lines) <= 5
    assert lines[-1] == "TASK ERROR: migration problems"


def test_no_free_device_is_named_by_the_targets_own_line(night: Night) -> None:
    night.fake.cluster.vms[101].migration = "no-free-device"
    step = only(night.migrate("101", TWO))
    assert step.status == "failed"
    assert f"[{TWO}] could not find a free device for 'hostpci0'" in step.reason


@pytest.mark.parametrize("migration", ["keeps-lock", "is-killed"])
def test_a_lock_that_is_left_behind_is_told_and_counts_as_a_change(
    night: Night, migration: str
) -> None:
    night.fake.cluster.vms[104].migration = migration
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (4, "failed", True)
    assert "locked (migrate)" in step.reason
    assert "qm unlock" in step.reason


def test_a_task_that_says_ok_has_not_moved_anything_by_that(night: Night) -> None:
    night.fake.cluster.vms[104].migration = "lands-elsewhere"
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (7, "failed")
    assert "and yet it was not moved" in only(outcome).reason


# -- the line is bad -----------------------------------------------------------------------------


def test_a_lost_answer_is_looked_up_and_never_asked_again(night: Night) -> None:
    night.fake.lose_answer("POST", MIGRATE)
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (0, "done")
    assert len(night.posts) == 1
    assert len(night.fake.cluster.tasks) == 1


def test_a_lost_call_that_did_nothing_is_not_repeated_either(night: Night) -> None:
    night.fake.fail("POST", MIGRATE, Reply(drop=True))
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (7, "failed", False)
    assert "no migration was begun" in step.reason
    assert len(night.posts) == 1
    assert night.fake.cluster.tasks == {}


class AfterPost(Fault):
    """A fault that only begins with the first POST."""

    fake: FakeProxmox

    def matches(self, request: Request) -> bool:
        return bool(self.fake.sent("POST")) and super().matches(request)


def test_a_lost_answer_that_nobody_can_look_up_is_unknown(night: Night) -> None:
    night.fake.lose_answer("POST", MIGRATE)
    blind = AfterPost("GET", r"/tasks$", SILENT, times=99)
    blind.fake = night.fake
    night.fake.faults.append(blind)
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (4, "unknown")
    assert len(night.posts) == 1


def test_an_endpoint_that_goes_away_while_waiting_changes_nothing(night: Night) -> None:
    night.on_pause = once(1, lambda: night.fake.endpoint_down(0))
    outcome = night.migrate("104", TWO)
    assert outcome.exit_code == 0
    assert len(night.posts) == 1


def test_silence_of_the_node_is_waited_out_with_growing_pauses(night: Night) -> None:
    night.steps = 1
    night.on_pause = once(1, lambda: night.fake.fail("GET", STATUS, SILENT, times=16))
    outcome = night.migrate("104", TWO)
    assert outcome.exit_code == 0
    assert any("the migration goes on, asking again" in line for line in night.said)
    assert any("connected again" in line for line in night.said)
    assert max(night.pauses) > 2 * min(night.pauses)


def test_a_token_that_is_replaced_in_time_is_used(night: Night) -> None:
    def change(number: int) -> None:
        night.fake.secret = "another" if number < 4 else SECRET

    night.on_pause, night.steps = change, 1
    outcome = night.migrate("104", TWO)
    assert outcome.exit_code == 0
    assert any("does not accept the token" in line for line in night.said)


def test_a_token_that_is_gone_for_good_leaves_the_end_unknown(night: Night) -> None:
    def revoke() -> None:
        night.fake.secret = "another"

    night.on_pause = once(1, revoke)
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status) == (4, "unknown")
    assert f"{FOLLOW} '{step.detail['upid']}'" in step.reason


def test_a_node_that_dies_with_its_task_leaves_the_end_unknown(night: Night) -> None:
    def die() -> None:
        night.fake.cluster.nodes[ONE].online = False

    night.steps = 1
    night.on_pause = once(2, die)
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (4, "unknown")
    assert f"node {ONE}, which ran the task, is offline" in only(outcome).reason


# -- somebody is in a hurry ----------------------------------------------------------------------


def interrupt(night: Night) -> Callable[[], None]:
    return lambda: night.interruption.request("SIGINT")


def test_the_first_signal_leaves_it_running_and_says_how_to_follow(night: Night) -> None:
    night.on_pause, night.steps = once(2, interrupt(night)), 1
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    task = night.fake.only_task()
    assert (outcome.exit_code, step.status) == (130, "interrupted")
    assert f"{FOLLOW} '{task.upid}'" in step.reason
    assert task.exitstatus is None
    assert night.fake.sent("DELETE") == []


def test_it_can_be_followed_afterwards(night: Night, tmp_path: Path) -> None:
    night.on_pause, night.steps = once(2, interrupt(night)), 1
    night.migrate("104", TWO)
    later = Night(night.fake, night.client, tmp_path / "..")
    outcome = later.follow(night.fake.only_task().upid)
    assert (outcome.exit_code, only(outcome).status) == (0, "done")
    assert len(night.posts) == 1


def test_on_request_the_first_signal_stops_the_task(night: Night) -> None:
    night.cancels, night.steps = True, 1
    night.on_pause = once(8, interrupt(night))
    outcome = night.migrate("104", TWO)
    step = only(outcome)
    assert (outcome.exit_code, step.status, step.changed) == (130, "failed", False)
    assert "stopped on request" in step.reason
    assert len(night.fake.sent("DELETE")) == 1
    assert night.fake.cluster.vms[104].node == ONE


def test_once_the_memory_is_over_it_is_too_late_to_stop_it(night: Night) -> None:
    night.cancels, night.steps = True, 1

    def interrupt_late(number: int) -> None:
        lines = night.fake.only_task().lines
        is_over = any("migration status: completed" in line for line in lines)
        if is_over and not night.interruption.is_requested:
            night.interruption.request("SIGINT")

    night.on_pause = interrupt_late
    outcome = night.migrate("104", TWO)
    assert (outcome.exit_code, only(outcome).status) == (130, "done")
    assert night.interruption.is_requested
    assert night.fake.sent("DELETE") == []
    assert any("too late to stop it" in line for line in night.said)


def test_the_second_signal_ends_it_at_once_and_says_what_is_left(night: Night) -> None:
    def twice() -> None:
        night.interruption.request("SIGINT")
        night.interruption.request("SIGINT")

    night.on_pause, night.steps = once(2, twice), 1
    outcome = night.migrate("104", TWO)
    assert outcome.exit_code == 130
    assert only(outcome).status == "unknown"
    assert "vm/104" in outcome.warnings[0]
    assert any(night.fake.only_task().upid in line for line in night.said)


def test_when_the_time_is_up_it_goes_on_and_can_be_followed(night: Night) -> None:
    night.steps = 0
    outcome = night.migrate("104", TWO, timeout=20)
    step = only(outcome)
    assert (outcome.exit_code, step.status) == (9, "interrupted")
    assert FOLLOW in step.reason
    assert len(night.pauses) > 3


# -- high availability ---------------------------------------------------------------------------


def test_a_vm_of_the_ha_stack_is_followed_beyond_the_queue(night: Night) -> None:
    night.on_pause = lambda number: night.fake.ha_round() and None
    outcome = night.migrate("108", THREE)
    step = only(outcome)
    assert (outcome.exit_code, step.status) == (0, "done")
    assert ":qmigrate:108:root@pam:" in str(step.detail["upid"])
    assert any("queued" in line for line in night.said)
    assert len(night.posts) == 1


def test_a_request_that_the_ha_stack_ignores_is_not_done(night: Night) -> None:
    night.fake.cluster.vms[108].migration = "ha-ignores"
    outcome = night.migrate("108", THREE)
    assert (outcome.exit_code, only(outcome).status) == (4, "unknown")
    assert "has begun nothing for 2m" in only(outcome).reason
    assert night.fake.cluster.vms[108].node == TWO


def test_a_task_of_the_ha_stack_that_the_token_may_not_see_is_waited_out(night: Night) -> None:
    none = Reply(200, b'{"data":[]}', content_type="application/json")
    hidden = AfterPost("GET", r"/tasks$", none, times=10_000)
    hidden.fake = night.fake
    night.fake.faults.append(hidden)
    night.fake.cluster.vms[108].memory_mib = 128 * 1024
    night.steps = 1
    night.on_pause = lambda number: night.fake.ha_round() and None
    outcome = night.migrate("108", THREE)
    assert (outcome.exit_code, only(outcome).status) == (0, "done")
    assert night.clock.now() - NOON > timedelta(minutes=3)


def test_a_request_in_the_queue_can_be_left_and_followed(night: Night, tmp_path: Path) -> None:
    night.on_pause = once(1, interrupt(night))
    outcome = night.migrate("108", THREE)
    upid = str(only(outcome).detail["upid"])
    assert (outcome.exit_code, only(outcome).status) == (130, "interrupted")
    assert ":hamigrate:108:" in upid
    later = Night(night.fake, night.client, tmp_path / "..")
    later.on_pause = lambda number: night.fake.ha_round() and None
    followed = later.follow(upid, target=THREE)
    assert (followed.exit_code, only(followed).status) == (0, "done")


# -- the process dies ----------------------------------------------------------------------------


def die() -> None:
    raise Killed


def test_a_run_that_died_stays_open_while_the_migration_runs_and_is_closed_after_it(
    night: Night,
) -> None:
    night.on_pause, night.steps = once(2, die), 1
    with pytest.raises(Killed):
        night.migrate("104", TWO)
    upid = night.fake.only_task().upid
    (warning,) = night.recover()
    assert upid in warning
    assert night.runs()[0].is_open
    night.fake.finish(upid)
    assert night.recover() == ()
    (run,) = night.runs()
    assert not run.is_open
    found = run.steps["s1"].outcome
    assert found is not None
    assert (found.status, found.changed, found.detail["upid"]) == ("done", True, upid)
    assert len(night.posts) == 1


def test_a_run_that_died_before_anything_began_is_closed_as_not_begun(night: Night) -> None:
    night.fake.fail("POST", MIGRATE, Reply(drop=True))
    night.on_pause = once(1, die)
    with pytest.raises(Killed):
        night.migrate("104", TWO)
    assert night.recover() == ()
    found = night.runs()[0].steps["s1"].outcome
    assert found is not None
    assert (found.status, found.changed) == ("skipped", False)


def test_a_run_whose_migration_failed_is_closed_as_failed(night: Night) -> None:
    night.fake.cluster.vms[104].migration = "keeps-lock"
    night.on_pause, night.steps = once(2, die), 1
    with pytest.raises(Killed):
        night.migrate("104", TWO)
    night.fake.finish(night.fake.only_task().upid)
    assert night.recover() == ()
    found = night.runs()[0].steps["s1"].outcome
    assert found is not None
    assert (found.status, found.changed) == ("failed", True)


# -- following what others began -----------------------------------------------------------------


def test_a_foreign_migration_without_a_known_target_is_judged_by_its_move(night: Night) -> None:
    upid = night.client.start_migration(ONE, 104, TWO, MigrateOptions(online=True))
    outcome = night.follow(upid.text, target=None)
    assert (outcome.exit_code, only(outcome).status) == (0, "done")


def test_a_log_that_was_rotated_away_leaves_the_vms_place_to_tell(night: Night) -> None:
    gone = f"UPID:{ONE}:00000001:00000001:00000001:qmigrate:104:root@pam:"
    outcome = night.follow(gone, target=TWO)
    assert outcome.exit_code == 7
    assert f"still running on {ONE}" in only(outcome).reason
