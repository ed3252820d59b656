"""`gpuctl migrate`: a VM to another node of its Proxmox VE cluster, followed to its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpuctl.cli.runtime import Runtime, runtime_of
from gpuctl.cli.world import duration_option
from gpuctl.errors import RefusedError, UsageError
from gpuctl.exitcodes import ExitCode

if TYPE_CHECKING:
    from gpuctl.cli.migrate_stage import MigratePlan

_WHERE, _HOW, _RULES = "Where to", "How", "Overrides, one for each rule"
_GRACE_AFTER_SIGNAL = timedelta(seconds=60)


def migrate(
    ctx: typer.Context,
    vm: Annotated[
        str | None, typer.Argument(metavar="VM", help="its id, vm/ID, or its name if unique")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="NODE",
            help="the target, or auto for the best node by score [default: auto]",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    target_storage: Annotated[
        str | None,
        typer.Option(
            "--target-storage",
            metavar="STORAGE",
            help="for local disks: one storage, FROM:TO pairs, or 1 for the same ones",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline",
            help="live, or as a stopped VM [default: as it is]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="run every check; migrate nothing", rich_help_panel=_HOW),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="until the VM runs on its target", rich_help_panel=_HOW
        ),
    ] = True,
    with_local_disks: Annotated[
        bool,
        typer.Option(
            "--with-local-disks", help="copy local disks, while it runs", rich_help_panel=_HOW
        ),
    ] = False,
    bwlimit: Annotated[
        int | None,
        typer.Option(
            "--bwlimit",
            metavar="KIB",
            help="KiB/s at most, 0 for no limit [default: the cluster's]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    migration_network: Annotated[
        str | None,
        typer.Option(
            "--migration-network",
            metavar="CIDR",
            help="for root alone: refused for every API token",
            rich_help_panel=_HOW,
        ),
    ] = None,
    migration_type: Annotated[
        Literal["secure", "insecure"] | None,
        typer.Option(
            "--migration-type",
            help="for root alone: refused for every API token",
            rich_help_panel=_HOW,
        ),
    ] = None,
    cancel_on_interrupt: Annotated[
        bool,
        typer.Option(
            "--cancel-on-interrupt",
            help="^C or SIGTERM stops the migration instead of leaving it running",
            rich_help_panel=_HOW,
        ),
    ] = False,
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
            help="with --cancel-on-interrupt: for the migration to stop [default: 60s]",
            rich_help_panel=_HOW,
        ),
    ] = None,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="with --dry-run: end with 3 when it would be migrated",
            rich_help_panel=_HOW,
        ),
    ] = False,
    follow: Annotated[
        str | None,
        typer.Option(
            "--follow",
            metavar="UPID",
            help="follow a migration that was begun before, from any shell",
            rich_help_panel=_HOW,
        ),
    ] = None,
    drained: Annotated[
        bool,
        typer.Option(
            "--drained", help="a Kubernetes node: its pods are gone", rich_help_panel=_RULES
        ),
    ] = False,
    force_pinned: Annotated[
        bool,
        typer.Option(
            "--force-pinned", help="a VM with the tag gpuctl-pinned", rich_help_panel=_RULES
        ),
    ] = False,
) -> ExitCode:
    """Migrate a VM to another node, live where it runs, and follow it until it runs there.

    Every check comes before the question and is shown: state, lock, rights, quorum, the target
    with its devices, storages and memory, local disks, passthrough, HA, Kubernetes. What could not
    be checked is named. The migration is asked for once; its UPID is in the journal before the
    wait begins. Only where the VM runs at the end counts, not what its task says. ^C leaves it
    running and prints how to follow it.

    Examples:
      gpuctl migrate 104 --to pve-2 --dry-run
      gpuctl migrate train-a --to auto --yes
      gpuctl migrate --follow 'UPID:pve-1:0000A1B2:...:qmigrate:104:me@pve!t:'

    Exit codes:
      0  it runs on the target, or was there already; also any dry run
      3  with --dry-run --exit-code: it would be migrated
      4  it failed and left something behind (a lock); or its end is not known
      5  a check speaks against it, or no --yes where nobody can be asked
      7  the API is out of reach, or the migration failed and the VM is as it was
      8  another acting run holds the lock
      9  it was still under way at --timeout, and goes on
      130 or 143  after a signal: it goes on, unless --cancel-on-interrupt
    """
    from gpuctl.cli.migrate_stage import MigratePlan
    from gpuctl.clients.proxmox_tasks import MigrateOptions

    runtime = runtime_of(ctx)
    if runtime.options.snapshot is not None:
        raise RefusedError(
            "a saved snapshot can't be acted on",
            cause="it shows the cluster as it was",
            hint="leave out --snapshot; --dry-run looks at the cluster and changes nothing",
        )
    if exit_code and not dry_run:
        raise UsageError("--exit-code only goes with --dry-run", hint="add --dry-run")
    if bwlimit is not None and bwlimit < 0:
        raise UsageError("--bwlimit can't be negative", hint="0 means no limit")
    options = MigrateOptions(
        with_local_disks=with_local_disks,
        target_storage=target_storage,
        bwlimit_kib=bwlimit,
        migration_network=migration_network,
        migration_type=migration_type,
    )
    options.check()
    plan = MigratePlan(
        asked=vm or "",
        to=to or "auto",
        online=online,
        drained=drained,
        force_pinned=force_pinned,
        options=options,
        dry_run=dry_run,
        wait=wait,
        cancels=cancel_on_interrupt,
        lock_patience=duration_option("--wait-lock", wait_lock) or timedelta(),
        interrupt_grace=duration_option("--interrupt-grace", interrupt_grace)
        or _GRACE_AFTER_SIGNAL,
    )
    if follow is not None:
        if vm is not None or to is not None or dry_run or not wait:
            raise UsageError(
                "--follow goes alone, with a UPID",
                cause="the migration has been begun already: VM, target and manner are settled",
                hint="for example gpuctl migrate --follow UPID",
            )
        return _follow(runtime, plan, follow)
    if vm is None:
        raise UsageError("which VM?", hint="for example gpuctl migrate 104 --to pve-2 --dry-run")
    return _migrate(runtime, plan, exit_code=exit_code)


def _migrate(runtime: Runtime, plan: MigratePlan, *, exit_code: bool) -> ExitCode:
    from gpuctl.cli.migrate_flow import run_migrate, show_outcome
    from gpuctl.cli.migrate_stage import open_stage

    with open_stage(runtime, plan) as stage:
        outcome, appraisal = run_migrate(plan, stage, runtime)
    show_outcome(runtime, outcome, appraisal)
    would = any(step.status == "allowed" for step in outcome.steps)
    return ExitCode.CHANGES if exit_code and would else ExitCode(outcome.exit_code)


def _follow(runtime: Runtime, plan: MigratePlan, text: str) -> ExitCode:
    from dataclasses import replace

    from gpuctl.actions.scope import scope_of
    from gpuctl.cli.migrate_flow import run_follow, show_outcome
    from gpuctl.cli.migrate_stage import open_stage
    from gpuctl.clients.proxmox import parse_upid
    from gpuctl.errors import GpuctlError

    upid = parse_upid(text)
    if runtime.options.demo:
        raise UsageError(
            "there is nothing to follow in the demo",
            cause="a simulated migration ends with its command",
            hint="leave out --demo",
        )
    # To follow is to look on: it takes no lock and writes no journal.
    with open_stage(runtime, replace(plan, dry_run=True)) as stage:
        try:
            path = scope_of(runtime.environ, stage.context, None, make=False).journal_path
        except GpuctlError:
            path = None
        outcome = run_follow(upid, plan, stage, runtime, path)
    show_outcome(runtime, outcome, None)
    return ExitCode(outcome.exit_code)
