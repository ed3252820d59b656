"""The Proxmox VE rights of gpuctl as commands: one role, one user, one token of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gpuctl.errors import UsageError

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z][A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9._-]+")
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


class PveUse(StrEnum):
    """What the token is for; to migrate it has to see, too."""

    VIEWS = "views"
    MIGRATE = "migrate"


@dataclass(frozen=True, slots=True)
class Privilege:
    """A privilege of Proxmox VE and what gpuctl needs it for."""

    name: str
    why: str


VIEW_PRIVILEGES = (
    Privilege("VM.Audit", "VMs: which there are, their devices, tags, state and snapshots"),
    Privilege("Sys.Audit", "quorum, nodes' memory and processors, HA, vGPU types, others' tasks"),
    Privilege("Mapping.Audit", "which GPU a mapped device is; unknown to releases before 8.0"),
    Privilege("Datastore.Audit", "which storages a node has, and which are shared"),
)
MIGRATE_PRIVILEGES = (Privilege("VM.Migrate", "moving a VM, and what the server says before it"),)
#: For `migrate --target-storage` alone; printed as a comment.
TARGET_STORAGE_PRIVILEGES = ("VM.Config.Disk", "Datastore.AllocateSpace")
#: What releases before 8.0 don't know and would refuse.
SINCE_8 = ("Mapping.Audit",)


@dataclass(frozen=True, slots=True)
class PveAccount:
    """Names on the Proxmox VE side. `user` is USER@REALM, `token` the part after the `!`."""

    user: str
    token: str
    role: str

    def __post_init__(self) -> None:
        """Raises UsageError for a name that Proxmox VE would refuse."""
        for option, value, allowed, like in (
            ("--user", self.user, _USER, "gpuctl@pve: a name, @, and its realm"),
            ("--token", self.token, _TOKEN, "oncall: letters, digits, '.', '_', '-', two or more"),
            ("--role", self.role, _ROLE, "GpuctlOperator: letters, digits, '.', '_' and '-'"),
        ):
            if not allowed.fullmatch(value):
                raise UsageError(
                    f"{option} {value!r} is no name for Proxmox VE", hint=f"use one like {like}"
                )
        if self.role.upper().startswith("PVE"):
            raise UsageError(
                f"--role {self.role!r} is no name for Proxmox VE",
                cause="it keeps names that begin with PVE to itself",
            )

    @property
    def token_id(self) -> str:
        """As `token_id` of the configuration has it."""
        return f"{self.user}!{self.token}"


def privileges(use: PveUse) -> tuple[Privilege, ...]:
    """What the role holds."""
    return VIEW_PRIVILEGES if use is PveUse.VIEWS else (*VIEW_PRIVILEGES, *MIGRATE_PRIVILEGES)


def pve_commands(use: PveUse, account: PveAccount) -> str:
    """Shell commands for root on any node of the cluster; the same bytes for the same arguments."""
    names = [one.name for one in privileges(use)]
    older = [name for name in names if name not in SINCE_8]
    width = max(map(len, names))
    why = "".join(f"#   {one.name:<{width}}  {one.why}\n" for one in privileges(use))
    return (
        f"# What gpuctl may do in this Proxmox VE cluster ({use.value}), and nothing more.\n"
        "# Run as root on one node; the others learn of it.\n"
        "set -eu\n\n"
        f"{why}"
        f"# Before release 8.0: --privs '{','.join(older)}'\n"
        f"pveum role add {account.role} --privs '{','.join(names)}'\n"
        f"{_target_storage(account.role) if use is PveUse.MIGRATE else ''}\n"
        "# No password: the user can't log in, only its token is of use.\n"
        f"pveum user add {account.user} --comment 'gpuctl'\n"
        f"pveum acl modify / --users {account.user} --roles {account.role}\n\n"
        "# The token has what both it and its user are granted. Its secret is shown this once.\n"
        f"pveum user token add {account.user} {account.token} --privsep 1 --comment 'gpuctl'\n"
        f"pveum acl modify / --tokens '{account.token_id}' --roles {account.role}\n\n"
        "# In gpuctl's configuration; the file holds the secret alone, with mode 0600:\n"
        "#   proxmox:\n"
        f"#     token_id: {account.token_id}\n"
        "#     token_file: /etc/gpuctl/pve.token\n"
    )


def _target_storage(role: str) -> str:
    more = ",".join(TARGET_STORAGE_PRIVILEGES)
    return (
        "# Only for gpuctl migrate --target-storage:\n"
        f"# pveum role modify {role} --append 1 --privs '{more}'\n"
    )
