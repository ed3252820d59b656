"""How a migration is told to people: checklist, estimate, progress."""

from __future__ import annotations

import pytest

from gpuctl.actions.migrate_end import took_words
from gpuctl.actions.migrate_plan import Appraisal, Rules, appraise, judged, migration_step
from gpuctl.model.migration import MigrationFacts
from gpuctl.policy.migration.estimate import estimate
from gpuctl.policy.migration.task_log import read_log
from gpuctl.render.migration import checklist_lines, cost_line, progress_words
from gpuctl.render.screen import Screen
from tests.policy.migrating import GOOD, RAW, facts

ACTIVE = "migration active, transferred {} GiB of 64.0 GiB VM-state, 1.1 GiB/s"
DIRTY = ", VM dirties lots of memory: 0.6 GiB/s"


def words(*lines: str) -> str:
    return progress_words(read_log(lines))


def test_progress_tells_copied_total_rate_and_what_is_left() -> None:
    assert words(ACTIVE.format(32.0)) == (
        "memory: 50 %, 32.0 of 64.0 GiB, 1.1 GiB/s, about 29s left"
    )


def test_progress_counts_dirty_rounds_and_longer_pauses() -> None:
    raised = "auto-increased downtime to continue migration: 400 ms"
    told = words(ACTIVE.format(60.0) + DIRTY, raised, ACTIVE.format(62.0) + DIRTY)
    assert "dirtied at 0.6 GiB/s (2 dirty rounds)" in told
    assert "pause limit raised 1x" in told


def test_progress_never_says_more_than_all() -> None:
    assert words(ACTIVE.format(80.0)).startswith("memory: 100 %, 80.0 of 64.0 GiB")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), ""),
        (("starting migration of VM 104 to node 'b' (10.0.0.2)",), "starting"),
        (("something that nobody has ever seen",), "starting"),
        (
            ("drive-scsi0: transferred 1.0 GiB of 32.0 GiB (3.12%) in 12s",),
            "disks: 1.0 of 32.0 GiB",
        ),
        (("migration status: completed",), "memory is over there; finishing"),
    ],
)
def test_progress_of_the_other_phases(lines: tuple[str, ...], expected: str) -> None:
    assert words(*lines) == expected


def test_what_it_took_is_what_the_log_says() -> None:
    log = read_log(
        (
            "average migration speed: 1.1 GiB/s - downtime 73 ms",
            "migration finished successfully (duration 00:01:04)",
        )
    )
    assert took_words(log) == " (took 1m4s by its log, downtime 73 ms)"
    assert took_words(read_log(())) == ""


def test_the_checklist_gives_the_way_out_only_where_one_is_needed() -> None:
    good = checklist_lines(appraise_all(GOOD).checks, Screen())
    assert all(line.startswith("  ok ") for line in good)
    bad = checklist_lines(appraise_all(facts(vm={"devices": (RAW,)})).checks, Screen())
    (at,) = [n for n, line in enumerate(bad) if line.startswith("  FAIL  passthrough")]
    assert "-> shut it down" in bad[at + 1]


def test_names_from_outside_are_made_safe() -> None:
    lines = checklist_lines(appraise_all(facts(vm={"name": "a\x1b[2Jb"})).checks, Screen())
    assert not any("\x1b" in line for line in lines)


def test_the_estimate_gives_its_inputs() -> None:
    line = cost_line(estimate(GOOD))
    assert line.startswith("  estimate: about 64.0 GiB to copy, 1m12s, a pause of about 0.6s")
    assert "dirty rate unknown" in line
    assert "is not known" in cost_line(estimate(facts(vm={"ram_mib": None})))


# -- what forbids a move -------------------------------------------------------------------------


def appraise_all(of: MigrationFacts, *, tags: tuple[str, ...] = (), **rules: bool) -> Appraisal:
    return appraise(of, tags=tags, rules=Rules(**rules), bwlimit_kib=None)


def test_what_is_unknown_is_no_ok_where_nobody_else_would_stop_it() -> None:
    unread = appraise_all(facts(vm={"devices": None}))
    assert [check.name for check in unread.refusals] == ["passthrough"]
    assert "mappings" in [check.name for check in unread.unknown]


def test_whether_it_is_a_kubernetes_node_must_be_known_where_there_is_a_cluster() -> None:
    unsure = facts(vm={"kubernetes_node": None})
    assert appraise_all(unsure).refusals == ()
    (check,) = appraise_all(unsure, has_kubernetes=True).refusals
    assert check.name == "kubernetes-node"
    drained = facts(vm={"kubernetes_node": None}, wish={"drained": True})
    assert appraise_all(drained, has_kubernetes=True).refusals == ()


def test_the_reason_names_every_check_that_fails_and_one_way_out() -> None:
    found = judged(appraise_all(facts(vm={"devices": (RAW,)}), tags=("gpuctl-pinned",)))
    assert found is not None
    assert found.status == "refused"
    assert "passthrough: " in found.reason
    assert "pinned: " in found.reason
    assert "shut it down" in found.reason


def test_a_step_carries_what_a_later_run_needs() -> None:
    step = migration_step(appraise_all(GOOD), last_task="UPID:x", source=None, from_pct=None)
    assert step.workload == "vm/101"
    assert step.source is not None
    assert step.target is not None
    assert (step.source.node, step.target.node) == ("one", "two")
    assert step.facts == {
        "vmid": "101",
        "name": "train-a",
        "online": "1",
        "was": "running",
        "last_task": "UPID:x",
    }
