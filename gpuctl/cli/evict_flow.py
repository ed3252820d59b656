"""The course of one `gpuctl evict` after the first look: choose, show, ask, act, tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from msgspec import structs

from gpuctl.actions.cluster import eviction_steps
from gpuctl.actions.executor import RunHead, Tools, Work, carry_out
from gpuctl.actions.holds import NoHolder
from gpuctl.actions.interruption import Interruption, interruptible
from gpuctl.actions.journal import JournalSink, NoJournal
from gpuctl.actions.selection import select
from gpuctl.actions.steps import Actuator, Hold, Holder, Rehearsal, Step, StepResult, outcome_step
from gpuctl.cli.evict_stage import EvictPlan, Stage, clean_up, lock
from gpuctl.cli.options import ACTION_TIMEOUT
from gpuctl.cli.runtime import Runtime
from gpuctl.clock import Deadline
from gpuctl.errors import RefusedError, shorten
from gpuctl.model.outcome import OutcomeDocument, OutcomeStep

# From so many pods on, a bare y is too easy.
_WIDE = 10


def run_evict(plan: EvictPlan, stage: Stage, runtime: Runtime) -> OutcomeDocument:
    """What came of it. Raises RefusedError when nobody said yes, and LockedError."""
    selected = select(plan.request, stage.snapshot, stage.policy, stage.cluster.facts())
    steps, refused = eviction_steps(selected, stage.cluster)
    for note in selected.notes:
        runtime.output.info(note)
    work = Work(
        steps=steps,
        ruled_out=refused,
        holds=() if plan.evictor.dry_run else _holds(plan, steps),
        keep_going=plan.keep_going,
        verify=plan.wait,
    )
    if stage.scope is None or not steps:
        return _told(_rehearse(plan, stage, runtime, work), stage, runtime)
    _ask(plan, stage, runtime, steps, refused)
    with lock(stage.scope, stage.cluster, stage.run_id, plan, runtime) as (journal, fence):
        left = clean_up(stage.scope, journal, stage.cluster, stage.run_id, runtime)
        _warn(runtime, [text for text in left if text not in stage.warnings])
        stage = replace(stage, warnings=left)
        with _interruptible(plan, runtime) as interruption:
            actuator = stage.cluster.evictor(plan.evictor)
            holder = stage.cluster.holder()
            tools = _tools(runtime, actuator, holder, journal, interruption)
            tools = replace(tools, fence=fence)
            return _told(carry_out(_head(plan, stage), work, tools), stage, runtime)


def _rehearse(plan: EvictPlan, stage: Stage, runtime: Runtime, work: Work) -> OutcomeDocument:
    """The same course without a write: no journal, no holds, and every check."""
    actuator = Rehearsal(stage.cluster.evictor(plan.evictor), "would be evicted")
    with _interruptible(plan, runtime) as interruption:
        tools = _tools(runtime, actuator, NoHolder(), NoJournal(), interruption)
        outcome = carry_out(_head(plan, stage), work, tools)
    problem = stage.cluster.hold_problem() if plan.holds and work.steps else ""
    return structs.replace(outcome, warnings=(*outcome.warnings, problem)) if problem else outcome


def _interruptible(plan: EvictPlan, runtime: Runtime) -> AbstractContextManager[Interruption]:
    grace = plan.interrupt_grace.total_seconds()
    return interruptible(runtime.clock, grace, runtime.output.info)


def _head(plan: EvictPlan, stage: Stage) -> RunHead:
    return RunHead(
        run_id=stage.run_id,
        command="evict",
        context=stage.context,
        cluster=stage.snapshot.cluster,
        simulated=stage.snapshot.source.simulated,
        dry_run=plan.evictor.dry_run,
        backends={"evict": stage.cluster.backend},
    )


def _tools(
    runtime: Runtime,
    actuator: Actuator,
    holder: Holder,
    journal: JournalSink,
    interruption: Interruption,
) -> Tools:
    return Tools(
        actuators={"evict": actuator},
        holder=holder,
        journal=journal,
        interruption=interruption,
        deadline=Deadline.after(runtime.options.timeout or ACTION_TIMEOUT, runtime.clock),
        clock=runtime.clock,
        say=runtime.output.info,
    )


def _holds(plan: EvictPlan, steps: Sequence[Step]) -> tuple[Hold, ...]:
    """Each hold that was asked for, on each node that a pod is to leave."""
    nodes = dict.fromkeys(node for step in steps if (node := _node_of(step)))
    return tuple(Hold(kind, node) for kind in plan.holds for node in nodes)


def _node_of(step: Step) -> str:
    """By Kubernetes where it is known: metrics may call the node otherwise."""
    by_metrics = step.source.node if step.source is not None else ""
    return step.facts.get("node") or by_metrics


def _told(outcome: OutcomeDocument, stage: Stage, runtime: Runtime) -> OutcomeDocument:
    """With what there was to warn of before the run, which was said at once."""
    _warn(runtime, outcome.warnings)
    return structs.replace(outcome, warnings=(*stage.warnings, *outcome.warnings))


def _warn(runtime: Runtime, warnings: Iterable[str]) -> None:
    for warning in warnings:
        runtime.output.warn(warning)


# -- asking ----------------------------------------------------------------------------------------


def _ask(
    plan: EvictPlan,
    stage: Stage,
    runtime: Runtime,
    steps: Sequence[Step],
    refused: Sequence[OutcomeStep],
) -> None:
    """Show what is about to happen, and go on only with a yes. Raises RefusedError."""
    from gpuctl.render.outcome import plan_text

    output, is_asking = runtime.output, not runtime.options.yes and runtime.may_ask
    if is_asking or not output.quiet:
        shown = [_planned(step, stage) for step in steps]
        output.aside(plan_text(shown, refused, output.screen()))
    if runtime.options.yes:
        return
    if not runtime.may_ask:
        raise RefusedError(
            "nothing was evicted: nobody can be asked, and --yes was not given",
            cause="stdin is no terminal, or --no-input is set",
            hint="add --yes, or look first with --dry-run",
        )
    expected = (stage.context or stage.snapshot.cluster) if len(steps) > _WIDE else None
    if not output.confirm(_question(plan, steps), expected=expected):
        raise RefusedError("nothing was evicted: the answer was no")


def _planned(step: Step, stage: Stage) -> OutcomeStep:
    return outcome_step(
        step, StepResult(status="skipped", reason=stage.cluster.outlook(step.workload))
    )


def _question(plan: EvictPlan, steps: Sequence[Step]) -> str:
    """How far it reaches: how many, who, from where, and what is held meanwhile."""
    count = len(steps)
    noun = "1 pod" if count == 1 else f"{count} pods"
    names = shorten([step.workload for step in steps])
    from gpuctl.render.outcome import place_words

    sources = dict.fromkeys(place_words(step.source) for step in steps if step.source is not None)
    where = f" from {shorten(list(sources))}" if sources else ""
    held = f", with a {plan.holds[0]} meanwhile" if plan.holds else ""
    return f"Evict {noun} ({names}){where}{held}?"


# -- telling ---------------------------------------------------------------------------------------


def show_outcome(runtime: Runtime, outcome: OutcomeDocument) -> None:
    """The outcome in the format that was asked for; with -q a table only when it went wrong."""
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
                    output.text("\n".join(outcome_lines(outcome, output.screen())))

    output.outlast(write)
