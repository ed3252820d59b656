"""`gpuctl evict`: pods off a hot card, through the Eviction API and nothing else."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.cli.world import Kubeconfig, KubeContext, duration_option
from gpuctl.errors import RefusedError, UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.actions.selection import EvictionRequest
    from gpuctl.model.outcome import HoldKind
    from gpuctl.policy.selectors import Selector

_WHICH, _HOW, _RULES = "Which pods", "How", "Overrides, one for each rule"
_GRACE_AFTER_SIGNAL = timedelta(seconds=60)
_READY_WITHIN = timedelta(minutes=10)


def evict(
    ctx: typer.Context,
    pods: Annotated[
        list[str] | None,
        typer.Argument(metavar="POD", help="NAMESPACE/POD, or POD with -n"),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="NODE/GPU", help="pods on this GPU", rich_help_panel=_WHICH),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node", metavar="NODE", help="pods with a GPU of this node", rich_help_panel=_WHICH
        ),
    ] = None,
    selector: Annotated[
        str | None,
        typer.Option(
            "-l", "--selector", metavar="LABELS", help="such as app=chat", rich_help_panel=_WHICH
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n", "--namespace", metavar="NAME", help="only this one", rich_help_panel=_WHICH
        ),
    ] = None,
    workload_class: Annotated[
        Literal["inference", "training", "unknown"] | None,
        typer.Option("--class", help="only pods of this class", rich_help_panel=_WHICH),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--max",
            metavar="N",
            help="at most N, lowest priority and highest load first",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="run every check, the API server's own included; evict nothing",
            rich_help_panel=_HOW,
        ),
    ] = False,
    grace_period: Annotated[
        str | None,
        typer.Option(
            "--grace-period",
            metavar="DUR",
            help="for the pods to end [default: their own]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="until each pod is gone and its successor is Ready",
            rich_help_panel=_HOW,
        ),
    ] = True,
    ready_within: Annotated[
        str | None,
        typer.Option(
            "--ready-within",
            metavar="DUR",
            help="how long one successor may take [default: 10m]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    cordon: Annotated[
        bool,
        typer.Option(
            "--cordon",
            help="keep all new pods off the pods' nodes meanwhile",
            rich_help_panel=_HOW,
        ),
    ] = False,
    soft_taint: Annotated[
        bool,
        typer.Option(
            "--soft-taint",
            help="make the scheduler prefer other nodes meanwhile",
            rich_help_panel=_HOW,
        ),
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going/--no-keep-going",
            help="try the other pods after one that could not be evicted",
            rich_help_panel=_HOW,
        ),
    ] = True,
    wait_lock: Annotated[
        str | None,
        typer.Option(
            "--wait-lock",
            metavar="DUR",
            help="wait so long for another acting run to end [default: not at all]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    interrupt_grace: Annotated[
        str | None,
        typer.Option(
            "--interrupt-grace",
            metavar="DUR",
            help="for the running eviction after ^C or SIGTERM [default: 60s]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="with --dry-run: end with 3 when a pod would be evicted",
            rich_help_panel=_HOW,
        ),
    ] = False,
    force_unmanaged: Annotated[
        bool,
        typer.Option(
            "--force-unmanaged",
            help="pods without an owner, which nothing starts again",
            rich_help_panel=_RULES,
        ),
    ] = False,
    delete_emptydir_data: Annotated[
        bool,
        typer.Option(
            "--delete-emptydir-data",
            help="pods with an emptyDir on disk, whose data is lost",
            rich_help_panel=_RULES,
        ),
    ] = False,
    force_critical: Annotated[
        bool,
        typer.Option("--force-critical", help="pods of critical priority", rich_help_panel=_RULES),
    ] = False,
    force_protected_namespace: Annotated[
        bool,
        typer.Option(
            "--force-protected-namespace",
            help="pods of protected namespaces",
            rich_help_panel=_RULES,
        ),
    ] = False,
    force_not_evictable: Annotated[
        bool,
        typer.Option(
            "--force-not-evictable",
            help='pods annotated gpuctl.io/evictable: "false"',
            rich_help_panel=_RULES,
        ),
    ] = False,
    force_stateful: Annotated[
        bool,
        typer.Option(
            "--force-stateful",
            help="pods of training, a Job or a StatefulSet",
            rich_help_panel=_RULES,
        ),
    ] = False,
    force_daemonset: Annotated[
        bool,
        typer.Option(
            "--force-daemonset",
            help="pods of a DaemonSet, which come back to their node",
            rich_help_panel=_RULES,
        ),
    ] = False,
    kubeconfig: Kubeconfig = None,
    kube_context: KubeContext = None,
) -> ExitCode:
    """Evict pods from a GPU, a node or by name, and see where their successors land.

    Only the Eviction API is used, so that disruption budgets are obeyed: a budget that says no is
    named with its numbers and waited for, within --timeout. Pods of kube-system, DaemonSets and
    training, critical, bare and annotated pods stay, unless the rule is overridden by name. Each
    pod is read again and tried in the server's dry run just before. A journal keeps what was
    done: gpuctl history.

    Examples:
      gpuctl evict --gpu gpu-a/3 --class inference --max 1 --soft-taint
      gpuctl evict -n prod chat-7d9c-x2x --dry-run
      gpuctl --demo evict --gpu hk-gpu-03/1 --max 1 --yes

    Exit codes:
      0  all were evicted and their successors are Ready; also any dry run
      3  with --dry-run --exit-code: a pod would be evicted
      4  some were evicted and some were not, or a successor is not Ready
      5  nothing was evicted: rules, budgets, or no --yes where nobody can be asked
      8  another acting run holds the lock
      9  nothing was evicted before --timeout
    """
    runtime = runtime_of(ctx)
    _check_usage(runtime, wait=wait, cordon=cordon, soft_taint=soft_taint, most=most)
    if exit_code and not dry_run:
        raise UsageError("--exit-code only goes with --dry-run", hint="add --dry-run")
    overridden = {
        "bare-pod": force_unmanaged,
        "emptydir": delete_emptydir_data,
        "critical-priority": force_critical,
        "protected-namespace": force_protected_namespace,
        "not-evictable": force_not_evictable,
        "stays-by-default": force_stateful,
        "node-bound": force_daemonset,
    }
    from gpuctl.actions.evictor import EvictorOptions
    from gpuctl.actions.selection import EvictionRequest
    from gpuctl.cli.evict_flow import run_evict, show_outcome
    from gpuctl.cli.evict_stage import EvictPlan, open_stage

    request = EvictionRequest(
        pods=tuple(pods or ()),
        gpu=gpu,
        node=node,
        selector=_selector(selector),
        namespace=namespace,
        workload_class=workload_class,
        most=most,
        overrides=frozenset(rule for rule, is_on in overridden.items() if is_on),
    )
    _check_request(request)
    plan = EvictPlan(
        request=request,
        evictor=EvictorOptions(
            grace_seconds=_grace_seconds(grace_period),
            dry_run=dry_run,
            ready_within=duration_option("--ready-within", ready_within) or _READY_WITHIN,
            instance=f"{os.uname().nodename}/{os.getpid()}",
        ),
        wait=wait,
        holds=_holds(cordon=cordon, soft_taint=soft_taint),
        keep_going=keep_going,
        lock_patience=duration_option("--wait-lock", wait_lock) or timedelta(),
        interrupt_grace=duration_option("--interrupt-grace", interrupt_grace)
        or _GRACE_AFTER_SIGNAL,
    )
    with open_stage(runtime, plan, kubeconfig, kube_context) as stage:
        outcome = run_evict(plan, stage, runtime)
    show_outcome(runtime, outcome)
    would = any(step.status == "allowed" for step in outcome.steps)
    return ExitCode.CHANGES if exit_code and would else ExitCode(outcome.exit_code)


def _check_usage(
    runtime: Runtime, *, wait: bool, cordon: bool, soft_taint: bool, most: int | None
) -> None:
    if runtime.options.snapshot is not None:
        raise RefusedError(
            "a saved snapshot can't be acted on",
            cause="it shows the cluster as it was",
            hint="leave out --snapshot; --dry-run looks at the cluster and changes nothing",
        )
    if cordon and soft_taint:
        raise UsageError("--cordon and --soft-taint exclude each other", hint="choose one of them")
    if not wait and (cordon or soft_taint):
        raise UsageError(
            "--no-wait does not go with --cordon or --soft-taint",
            cause="the node has to be held until the successors are placed",
            hint="leave out --no-wait",
        )
    if most is not None and most < 1:
        raise UsageError("--max must be at least 1", hint="for example --max 1")


def _check_request(request: EvictionRequest) -> None:
    by_condition = request.gpu or request.node or request.selector
    if request.pods and by_condition:
        raise UsageError(
            "pods by name do not go with --gpu, --node and --selector",
            hint="name the pods, or say where they are",
        )
    if not request.pods and not by_condition:
        raise UsageError(
            "which pods?",
            cause="no pod was named, and none of --gpu, --node and --selector was given",
            hint="for example gpuctl evict --gpu NODE/GPU --dry-run",
        )
    if request.gpu is not None and not request.gpu.rpartition("/")[2].isdecimal():
        raise UsageError(
            f"--gpu: {request.gpu!r} is not a GPU", hint="for example --gpu gpu-node-1/3"
        )


def _holds(*, cordon: bool, soft_taint: bool) -> tuple[HoldKind, ...]:
    if cordon:
        return ("cordon",)
    return ("soft-taint",) if soft_taint else ()


def _selector(text: str | None) -> Selector | None:
    if text is None:
        return None
    from gpuctl.policy.selectors import parse_selector

    try:
        return parse_selector(text)
    except ValueError as exc:
        raise UsageError(f"--selector: {exc}", hint="for example --selector app=chat") from exc


def _grace_seconds(text: str | None) -> int | None:
    if text is None:
        return None
    length = duration_option("--grace-period", f"{text}s" if text.isdecimal() else text)
    seconds = 0 if length is None else int(length.total_seconds())
    if seconds < 1:
        raise UsageError(
            "--grace-period must be at least 1s",
            cause="without any the GPU would be handed out while it is still in use",
            hint="for example --grace-period 30s",
        )
    return seconds
