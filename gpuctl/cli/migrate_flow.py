"""The course of one `gpuctl migrate`: choose the target, check, show, ask, move, tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

from msgspec import structs

from gpuctl.actions.cluster import LockPatience
from gpuctl.actions.executor import RunHead, Tools, Work, carry_out
from gpuctl.actions.holds import NoHolder
from gpuctl.actions.interruption import Interruption, interruptible
from gpuctl.actions.journal import Journal, JournalSink, NoJournal, read_journal
from gpuctl.actions.migrate import Following
from gpuctl.actions.migrate_cluster import LiveMigrations
from gpuctl.actions.migrate_plan import Appraisal, Judged, judged
from gpuctl.actions.recovery import recover
from gpuctl.actions.runs import runs_of
from gpuctl.actions.scope import Scope, acting, new_run_id, this_process
from gpuctl.actions.steps import Actuator, Step, StepResult
from gpuctl.cli.migrate_stage import MigratePlan, Stage
from gpuctl.cli.options import ACTION_TIMEOUT
from gpuctl.cli.runtime import Runtime
from gpuctl.cli.world import open_world
from gpuctl.clients.proxmox import MIGRATIONS, ProxmoxError, Upid
from gpuctl.clock import Deadline
from gpuctl.errors import GpuctlError, RefusedError, UsageError
from gpuctl.model.migration import Wish
from gpuctl.model.outcome import OutcomeDocument
from gpuctl.model.plan import DeviceRef
from gpuctl.model.snapshot import Snapshot

_MOST_CANDIDATES = 5
_TO_NODE = re.compile(r"to node '?([A-Za-z0-9-]+)'?")
_HEAD_LINES = 10
# What is wrong with the VM itself is so whatever the target.
_ABOUT_TARGET = frozenset(
    {"target", "preconditions", "storages", "memory", "cpu", "other-migrations", "mappings"}
    | {"replication"}
)


def run_migrate(
    plan: MigratePlan, stage: Stage, runtime: Runtime
) -> tuple[OutcomeDocument, Appraisal]:
    """What came of it, and the checklist. Raises RefusedError when nobody said yes."""
    appraisal, why = _appraisal(plan, stage, runtime)
    step = stage.cluster.step(appraisal)
    verdict = judged(appraisal)
    run_id = new_run_id(runtime.clock.now())
    if stage.scope is None or verdict is not None:
        outcome = _without_write(plan, stage, runtime, run_id, step, verdict)
        return _with_checks(outcome, appraisal, why), appraisal
    _ask(stage, runtime, appraisal)
    actuator = stage.cluster.actuator(appraisal.facts.wish, step)
    with _lock(stage, stage.scope, run_id, plan, runtime) as (journal, fence):
        left = recover(
            runs_of(read_journal(stage.scope.journal_path).records),
            run_id=run_id,
            backends=dict.fromkeys(stage.cluster.recoverers(), stage.cluster.backend),
            actuators=stage.cluster.recoverers(),
            holder=stage.cluster.holder(),
            journal=journal,
            clock=runtime.clock,
            say=runtime.output.info,
        )
        with _interruptible(plan, runtime) as interruption:
            tools = replace(_tools(runtime, actuator, journal, interruption), fence=fence)
            work = Work(steps=(step,), keep_going=False, verify=plan.wait)
            outcome = carry_out(_head(stage, run_id, dry_run=False), work, tools)
    warnings = (*left, *outcome.warnings)
    return _with_checks(structs.replace(outcome, warnings=warnings), appraisal, why), appraisal


def _without_write(
    plan: MigratePlan,
    stage: Stage,
    runtime: Runtime,
    run_id: str,
    step: Step,
    verdict: StepResult | None,
) -> OutcomeDocument:
    """A dry run, or a move that is refused or needless: no journal, no lock."""
    with _interruptible(plan, runtime) as interruption:
        tools = _tools(runtime, Judged(verdict), NoJournal(), interruption)
        work = Work(steps=(step,), keep_going=False, verify=False)
        tools = replace(tools, say=lambda _: None)  # the outcome says it
        outcome = carry_out(_head(stage, run_id, dry_run=plan.dry_run), work, tools)
    # Nothing was begun, and no journal knows of it.
    steps = tuple(structs.replace(one, started_at=None, ended_at=None) for one in outcome.steps)
    return structs.replace(outcome, steps=steps)


def _with_checks(outcome: OutcomeDocument, appraisal: Appraisal, why: str) -> OutcomeDocument:
    chosen = {"auto": why} if why else {}
    steps = tuple(
        structs.replace(step, detail={**step.detail, **chosen, **appraisal.detail()})
        for step in outcome.steps
    )
    unknown = [f"not checked: {one.name}: {one.reason}" for one in appraisal.unknown]
    return structs.replace(outcome, steps=steps, warnings=(*unknown, *outcome.warnings))


# -- the target ------------------------------------------------------------------------------------


def _appraisal(plan: MigratePlan, stage: Stage, runtime: Runtime) -> tuple[Appraisal, str]:
    """The checklist, and why this target; "" where it was named."""
    if plan.to != "auto":
        return stage.cluster.appraise(_wish(plan, plan.to)), ""
    candidates = stage.cluster.candidates(lambda: _snapshot(stage, runtime))
    first: Appraisal | None = None
    for candidate in candidates[:_MOST_CANDIDATES]:
        found = stage.cluster.appraise(_wish(plan, candidate.node))
        first = first or found
        refusals = found.refusals
        if any(one.name not in _ABOUT_TARGET for one in refusals):
            return found, ""
        if not refusals:
            runtime.output.info(f"auto: {candidate.why}")
            return found, candidate.why
        runtime.output.info(f"auto: not {candidate.node}: {refusals[0].reason}")
    assert first is not None  # noqa: S101 - candidates are never empty
    return first, ""


def _wish(plan: MigratePlan, target: str) -> Wish:
    return Wish(
        target=target,
        online=plan.online,
        with_local_disks=plan.options.with_local_disks,
        target_storage=plan.options.target_storage,
        drained=plan.drained,
    )


def _snapshot(stage: Stage, runtime: Runtime) -> Snapshot:
    """Metrics that are good enough to choose a target by. Raises MetricsError."""
    from gpuctl.policy.guards import require_good_data

    with open_world(runtime) as world:
        snapshot = world.observe(details=False)
    require_good_data(snapshot, stage.policy, min_coverage=stage.policy.limits.min_coverage)
    return snapshot


# -- asking ----------------------------------------------------------------------------------------


def _ask(stage: Stage, runtime: Runtime, appraisal: Appraisal) -> None:
    """Show the checklist, and go on only with a yes. Raises RefusedError."""
    from gpuctl.render.migration import checklist_lines, cost_line

    output, is_asking = runtime.output, not runtime.options.yes and runtime.may_ask
    if is_asking or not output.quiet:
        lines = [*checklist_lines(appraisal.checks, output.screen()), cost_line(appraisal.cost)]
        output.aside("\n".join(lines))
    if runtime.options.yes:
        return
    if not runtime.may_ask:
        raise RefusedError(
            "nothing was migrated: nobody can be asked, and --yes was not given",
            cause="stdin is no terminal, or --no-input is set",
            hint="add --yes, or look first with --dry-run",
        )
    if not output.confirm(_question(appraisal)):
        raise RefusedError("nothing was migrated: the answer was no")


def _question(appraisal: Appraisal) -> str:
    facts = appraisal.facts
    vm = facts.vm
    shown, source = (vm.shown, vm.node) if vm is not None else (facts.asked, "?")
    how = "live" if facts.is_live else "offline"
    size = appraisal.cost.copy_bytes
    copied = "" if size is None else f", about {size / (1 << 30):.1f} GiB to copy"
    unknown = ", ".join(one.name for one in appraisal.unknown)
    unchecked = f", without having checked {unknown}" if unknown else ""
    return f"Migrate {shown} {how} from {source} to {facts.wish.target}{copied}{unchecked}?"


# -- the executor's surroundings -------------------------------------------------------------------


@contextmanager
def _lock(
    stage: Stage, scope: Scope, run_id: str, plan: MigratePlan, runtime: Runtime
) -> Iterator[tuple[Journal, Callable[[], None]]]:
    """The right to act: the journal, and the fence to ask before the write."""
    who = this_process(run_id, "migrate", runtime.clock)
    seconds, wait = plan.lock_patience.total_seconds(), Event().wait
    patience = LockPatience(seconds, wait, runtime.output.info)
    with (
        acting(scope, who, clock=runtime.clock, patience_seconds=seconds, wait=wait) as journal,
        stage.exclusively(who, patience) as fence,
    ):
        yield journal, fence


@contextmanager
def _interruptible(plan: MigratePlan, runtime: Runtime) -> Iterator[Interruption]:
    """Signals, with words that fit: a migration is left alone, or stopped, never waited for."""

    def heard(text: str) -> None:
        name = text.partition(":")[0]
        what = "the migration is stopped" if plan.cancels else "the migration is left running"
        runtime.output.info(f"{name}: {what}; once more to end at once")

    grace = plan.interrupt_grace.total_seconds()
    with interruptible(runtime.clock, grace, heard) as interruption:
        yield interruption


def _head(stage: Stage, run_id: str, *, dry_run: bool) -> RunHead:
    return RunHead(
        run_id=run_id,
        command="migrate",
        context=stage.context,
        cluster=stage.cluster_name,
        simulated=stage.is_simulated,
        dry_run=dry_run,
        backends={"migrate": stage.cluster.backend},
    )


def _tools(
    runtime: Runtime, actuator: Actuator, journal: JournalSink, interruption: Interruption
) -> Tools:
    return Tools(
        actuators={"migrate": actuator},
        holder=NoHolder(),
        journal=journal,
        interruption=interruption,
        deadline=Deadline.after(runtime.options.timeout or ACTION_TIMEOUT, runtime.clock),
        clock=runtime.clock,
        say=runtime.output.info,
    )


# -- following -------------------------------------------------------------------------------------


def run_follow(
    upid: Upid, plan: MigratePlan, stage: Stage, runtime: Runtime, journal_path: str | None
) -> OutcomeDocument:
    """How a migration ends that was begun before, by gpuctl or somebody else. Changes nothing."""
    if upid.type not in MIGRATIONS:
        raise UsageError(
            f"{upid.text} is no migration but a task of the kind {upid.type}",
            hint="gpuctl history shows the UPIDs of gpuctl's own migrations",
        )
    live = stage.cluster
    assert isinstance(live, LiveMigrations)  # noqa: S101 - the demo was refused before
    known = None if journal_path is None else _from_journal(upid, journal_path)
    run_id, step = known or (new_run_id(runtime.clock.now()), _foreign_step(upid, live))
    with _interruptible(plan, runtime) as interruption:
        actuator = Following(live.follower(), upid)
        tools = _tools(runtime, actuator, NoJournal(), interruption)
        work = Work(steps=(step,), keep_going=False, verify=False)
        return carry_out(_head(stage, run_id, dry_run=False), work, tools)


def _from_journal(upid: Upid, path: str) -> tuple[str, Step] | None:
    """The run and step that began the migration, when the journal knows it."""
    try:
        records = read_journal(path).records
    except GpuctlError:
        return None
    found = next((one for one in records if one.data.get("upid") == upid.text), None)
    if found is None:
        return None
    run = next((one for one in runs_of(records) if one.run_id == found.run), None)
    log = run.steps.get(found.step) if run is not None else None
    return None if log is None else (found.run, log.step)


def _foreign_step(upid: Upid, live: LiveMigrations) -> Step:
    """A step by what the task itself says; its target stays unknown when the log is gone."""
    try:
        head = live.client.task_log(upid, limit=_HEAD_LINES).lines
    except ProxmoxError:
        head = ()
    named = (_TO_NODE.search(line.t) for line in head)
    target = next((match[1] for match in named if match), None)
    return Step(
        id="s1",
        action="migrate",
        workload=f"vm/{upid.id}",
        source=DeviceRef(node=upid.node, gpu=None),
        target=None if target is None else DeviceRef(node=target, gpu=None),
        facts={"vmid": upid.id},
    )


# -- telling ---------------------------------------------------------------------------------------


def show_outcome(runtime: Runtime, outcome: OutcomeDocument, appraisal: Appraisal | None) -> None:
    """The outcome in the format that was asked for; with -q a table only when it went wrong.

    The checklist comes with it where nothing was done: then it is the answer.
    """
    from gpuctl.render.migration import checklist_lines, cost_line
    from gpuctl.render.outcome import outcome_lines, outcome_names, outcome_rows

    output = runtime.output

    def write() -> None:
        match output.format:
            case "json" | "yaml":
                output.document(outcome)
            case "csv":
                output.csv(*outcome_rows(outcome.steps))
            case "name":
                output.names(outcome_names(outcome))
            case "wide":
                output.table(*outcome_rows(outcome.steps), numeric=("landed_pct",))
            case "table":
                if outcome.exit_code or not output.quiet:
                    lines = outcome_lines(outcome, output.screen())
                    if appraisal is not None and _is_answer(outcome):
                        listed = checklist_lines(appraisal.checks, output.screen())
                        cost = [] if appraisal.refusals else [cost_line(appraisal.cost)]
                        lines[1:1] = [*listed, *cost]
                    output.text("\n".join(lines))

    output.outlast(write)
    for warning in outcome.warnings:
        output.warn(warning)


def _is_answer(outcome: OutcomeDocument) -> bool:
    return any(step.status in ("allowed", "refused") for step in outcome.steps)
