"""Migrations on the fake Proxmox VE, with a clock that moves when somebody waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from gpuctl.actions.executor import RunHead, Tools, Work, carry_out
from gpuctl.actions.holds import NoHolder
from gpuctl.actions.interruption import Interruption
from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.migrate import Following
from gpuctl.actions.migrate_cluster import LiveMigrations, Manner
from gpuctl.actions.migrate_plan import Rules
from gpuctl.actions.recovery import recover
from gpuctl.actions.runs import RunLog, runs_of
from gpuctl.actions.steps import Actuator, Step
from gpuctl.clients.proxmox import MigrateOptions, ProxmoxClient, parse_upid
from gpuctl.clock import Deadline, FixedClock
from gpuctl.inventory.proxmox import ProxmoxInventory
from gpuctl.model.migration import Wish
from gpuctl.model.outcome import OutcomeDocument, OutcomeStep
from gpuctl.model.plan import DeviceRef
from gpuctl.model.policy import Policy
from gpuctl.render.migration import progress_words
from tests.actions.playing import NOON
from tests.fakes.proxmox import FakeProxmox

ONE, TWO, THREE = "gpu-node-1", "gpu-node-2", "gpu-node-3"
FOLLOW = "gpuctl migrate --follow"


@dataclass
class Night:
    """A cluster, and somebody who migrates VMs in it.

    With each pause the tasks go on by `steps`; before that `on_pause` runs with the number of the
    pause, from 1.
    """

    fake: FakeProxmox
    client: ProxmoxClient
    folder: Path
    steps: int = 4
    cancels: bool = False
    on_pause: Callable[[int], None] = lambda _: None
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOON))
    said: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interruption = Interruption(self.clock, 60.0, self.pause)

    def pause(self, seconds: float) -> None:
        self.clock.at += timedelta(seconds=seconds)
        self.pauses.append(seconds)
        self.on_pause(len(self.pauses))
        for upid, task in list(self.fake.cluster.tasks.items()):
            if task.exitstatus is None:
                self.fake.advance(upid, self.steps)

    @property
    def journal_path(self) -> str:
        return str(self.folder / "journal.jsonl")

    @property
    def posts(self) -> list[str]:
        """Every migration that was asked for."""
        return self.fake.sent("POST")

    def cluster(self, asked: str, **options: object) -> LiveMigrations:
        manner = Manner(
            rules=Rules(),
            options=MigrateOptions(**options),  # type: ignore[arg-type]
            cancels=self.cancels,
            follow_command=FOLLOW,
            words=progress_words,
        )
        return LiveMigrations(
            client=self.client,
            inventory=ProxmoxInventory(self.client),
            beside=(),
            clock=self.clock,
            policy=Policy(),
            asked=asked,
            manner=manner,
        )

    def migrate(
        self, asked: str, target: str, *, wait: bool = True, timeout: float = 1800
    ) -> OutcomeDocument:
        """`gpuctl migrate ASKED --to TARGET --yes`, after the question."""
        cluster, wish = self.cluster(asked), Wish(target=target)
        step = cluster.step(cluster.appraise(wish))
        return self.carry_out(step, cluster.actuator(wish, step), wait=wait, timeout=timeout)

    def follow(self, upid: str, target: str | None = TWO) -> OutcomeDocument:
        """`gpuctl migrate --follow UPID`."""
        found = parse_upid(upid)
        step = Step(
            id="s1",
            action="migrate",
            workload=f"vm/{found.id}",
            source=DeviceRef(node=found.node, gpu=None),
            target=None if target is None else DeviceRef(node=target, gpu=None),
            facts={"vmid": found.id},
        )
        following = Following(self.cluster(found.id).follower(), found)
        return self.carry_out(step, following, wait=False)

    def carry_out(
        self, step: Step, actuator: Actuator, *, wait: bool = True, timeout: float = 1800
    ) -> OutcomeDocument:
        head = RunHead(
            run_id=f"r{len(self.runs()) + 1}",
            command="migrate",
            context="hk",
            cluster="hk",
            simulated=False,
            dry_run=False,
            backends={"migrate": "pve"},
        )
        work = Work(steps=(step,), keep_going=False, verify=wait)
        with self.journal() as journal:
            tools = Tools(
                actuators={"migrate": actuator},
                holder=NoHolder(),
                journal=journal,
                interruption=self.interruption,
                deadline=Deadline.after(timeout, self.clock),
                clock=self.clock,
                say=self.said.append,
            )
            return carry_out(head, work, tools)

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with Journal(self.journal_path, self.clock) as journal:
            yield journal

    def runs(self) -> list[RunLog]:
        return runs_of(read_journal(self.journal_path).records)

    def recover(self) -> tuple[str, ...]:
        """What the next run does first."""
        cluster = self.cluster("")
        with self.journal() as journal:
            return recover(
                self.runs(),
                run_id="next",
                backends={"migrate": "pve"},
                actuators=cluster.recoverers(),
                holder=cluster.holder(),
                journal=journal,
                clock=self.clock,
                say=self.said.append,
            )


def only(outcome: OutcomeDocument) -> OutcomeStep:
    """The one step of a run."""
    (step,) = outcome.steps
    return step
