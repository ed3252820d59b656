"""`gpuctl export`: files and commands that make other systems ready for gpuctl."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuctl.artifacts.pve_role import PveAccount, PveUse, pve_commands
from gpuctl.artifacts.rbac import Account, Purpose, rbac_manifests
from gpuctl.cli.runtime import runtime_of
from gpuctl.exitcodes import ExitCode

app = typer.Typer(help="print manifests and commands that prepare a cluster", add_completion=False)


@app.command("rbac")
def rbac(
    ctx: typer.Context,
    purpose: Annotated[
        Purpose, typer.Option("--for", help="what the account has to be able to do")
    ] = Purpose.EVICT,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="where account and Lease live")
    ] = "gpuctl",
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="who gets the rights")
    ] = "gpuctl",
) -> ExitCode:
    """Print the Kubernetes rights that gpuctl needs, as manifests.

    Only what its commands ask for, each rule with its reason: --for views lists nodes, pods and
    ReplicaSets and changes nothing; evict adds gpuctl evict with taints, Lease and Events; all
    adds the landing intents of the scheduler extender. Nothing is sent to a cluster.

    Examples:
      gpuctl export rbac --for views | kubectl apply -f -
      gpuctl export rbac --for evict --namespace ops --service-account oncall > rbac.yaml
    """
    manifests = rbac_manifests(purpose, Account(service_account, namespace))
    runtime_of(ctx).output.text(manifests)
    return ExitCode.OK


@app.command("pve-role")
def pve_role(
    ctx: typer.Context,
    use: Annotated[
        PveUse, typer.Option("--for", help="what the token has to be able to do")
    ] = PveUse.MIGRATE,
    user: Annotated[
        str, typer.Option(metavar="USER@REALM", help="the user that is made")
    ] = "gpuctl@pve",
    token: Annotated[str, typer.Option(metavar="NAME", help="its token")] = "oncall",  # noqa: S107 - a name; the secret is what Proxmox VE answers
    role: Annotated[
        str, typer.Option(metavar="NAME", help="the role that both get")
    ] = "GpuctlOperator",
) -> ExitCode:
    """Print the commands that make a Proxmox VE token for gpuctl.

    A role with the fewest privileges, a user without password, and a token with privilege
    separation. --for views can only look; migrate can move VMs, too. Nothing is sent to a
    cluster.

    Examples:
      gpuctl export pve-role
      gpuctl export pve-role --for views --role GpuctlViewer | ssh root@pve-1 sh
    """
    runtime_of(ctx).output.text(pve_commands(use, PveAccount(user, token, role)))
    return ExitCode.OK
