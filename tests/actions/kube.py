"""Evictions against the fake API server, with a clock that moves when somebody waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from gpuctl.actions.evictor import Evictor, EvictorOptions
from gpuctl.actions.executor import RunHead, Tools, Work, carry_out
from gpuctl.actions.holds import KubernetesHolder
from gpuctl.actions.interruption import Interruption
from gpuctl.actions.journal import Journal, read_journal
from gpuctl.actions.landing import Locator
from gpuctl.actions.runs import RunLog, runs_of
from gpuctl.actions.steps import Hold, Rehearsal, Step, unfenced
from gpuctl.clients.kubernetes.client import KubernetesClient
from gpuctl.clock import Deadline, FixedClock
from gpuctl.model.outcome import OutcomeDocument, OutcomeStep
from gpuctl.model.plan import DeviceRef
from gpuctl.model.settings import KubernetesSettings
from gpuctl.model.snapshot import Snapshot
from tests.actions.playing import NOON
from tests.fakes.http_server import Request
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.kubernetes_answers import NODES, PODS, Json
from tests.fakes.kubernetes_objects import GPU, PodSpec, budget_json, node_json

CHAT = ("ReplicaSet", "chat-5d8f7c")


@dataclass
class Site:
    """A fake cluster of two nodes, a client of it, and runs over one journal.

    Each wait lets time pass in the cluster, and its controllers work, unless `is_frozen`.
    """

    fake: FakeKubernetes
    client: KubernetesClient
    folder: Path
    clock: FixedClock = field(default_factory=lambda: FixedClock(NOON))
    options: EvictorOptions = field(default_factory=lambda: EvictorOptions(instance="test/1"))
    observe: Callable[[], Snapshot] | None = None
    fence: Callable[[], None] = unfenced
    is_frozen: bool = False
    on_wait: Callable[[float], None] = lambda seconds: None
    replacement_ready: bool = True
    said: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.interruption = Interruption(self.clock, 60.0, self.wait)
        self.fake.state.landing = lambda pod: "gpu-b"

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.at += timedelta(seconds=seconds)
        self.on_wait(seconds)
        if not self.is_frozen:
            self.fake.state.step(seconds)
            self.fake.state.run_owners(ready=self.replacement_ready)

    def pod(self, name: str, owner: tuple[str, str] | None = CHAT, **more: object) -> Json:
        """A pod on gpu-a."""
        labels = {"app": "chat", "pod-template-hash": "5d8f7c"} if owner == CHAT else {}
        return self.fake.state.add_pod(PodSpec(name, owner=owner, labels=labels, **more))  # type: ignore[arg-type]

    def budget(self, name: str = "chat", **numbers: object) -> None:
        self.fake.state.add_budget(budget_json("prod", name, {"app": "chat"}, **numbers))  # type: ignore[arg-type]

    def step(self, pod: Json, number: int = 1, **facts: str) -> Step:
        """The step that evicts a pod."""
        meta = pod["metadata"]
        owner = next(iter(meta.get("ownerReferences", [])), None)
        known = {"uid": meta["uid"], "owner": "", **facts}
        if owner is not None:
            known |= {
                "owner": "Deployment/chat",
                "owner_uid": owner["uid"],
                "controller": f"{owner['kind']}/{owner['name']}",
                "controller_api": owner["apiVersion"],
                "template_hash": meta.get("labels", {}).get("pod-template-hash", ""),
                "from_utilization_pct": "96.0",
            }
        return Step(
            id=f"s{number}",
            action="evict",
            workload=f"{meta['namespace']}/{meta['name']}",
            source=DeviceRef(node="gpu-a", gpu=0),
            facts=known,
        )

    def evictor(self) -> Evictor:
        return Evictor(self.client, self.clock, Locator(self.observe), self.options)

    def evict(
        self,
        *pods: Json,
        run_id: str = "r1",
        holds: tuple[Hold, ...] = (),
        verify: bool = True,
        timeout: float = 1800,
        keep_going: bool = True,
    ) -> OutcomeDocument:
        steps = [self.step(pod, number) for number, pod in enumerate(pods, start=1)]
        evictor = self.evictor()
        actuator = Rehearsal(evictor, "would be evicted") if self.options.dry_run else evictor
        with Journal(self.path, self.clock) as journal:
            return carry_out(
                RunHead(
                    run_id=run_id,
                    command="evict",
                    context="hk",
                    cluster=None,
                    simulated=False,
                    dry_run=self.options.dry_run,
                    backends={"evict": self.client.shown_url},
                ),
                Work(steps=steps, holds=holds, keep_going=keep_going, verify=verify),
                Tools(
                    actuators={"evict": actuator},
                    holder=KubernetesHolder(self.client),
                    journal=journal,
                    interruption=self.interruption,
                    deadline=Deadline.after(timeout, self.clock),
                    clock=self.clock,
                    say=self.said.append,
                    fence=self.fence,
                ),
            )

    def evict_one(self, pod: Json, **more: object) -> OutcomeStep:
        (step,) = self.evict(pod, **more).steps  # type: ignore[arg-type]
        return step

    @property
    def path(self) -> str:
        return str(self.folder / "journal.jsonl")

    def runs(self) -> list[RunLog]:
        return runs_of(read_journal(self.path).records)

    def evictions(self, *, real: bool = True) -> list[Request]:
        """What was asked of the Eviction API."""
        return [
            request
            for request in self.fake.requests
            if request.path.endswith("/eviction") and (request.param("dryRun") is None) == real
        ]

    def events(self) -> list[Json]:
        from tests.fakes.kubernetes_answers import BY_KIND

        return self.fake.state.all(BY_KIND["Event"])

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.fake.state.all(PODS)]


@contextmanager
def a_site(folder: Path, environ: dict[str, str] | None = None) -> Iterator[Site]:
    """A fake cluster with the nodes gpu-a and gpu-b, and a client logged in."""
    with FakeKubernetes(NOON) as fake:
        for node in ("gpu-a", "gpu-b"):
            fake.state.add(NODES, node_json(node, {GPU: 4}))
        clock = FixedClock(NOON)
        settings = KubernetesSettings(kubeconfig=fake.kubeconfig(folder))
        with KubernetesClient(
            settings,
            request_timeout=30.0,
            environ=environ or {},
            clock=clock,
            sleep=lambda seconds: None,
            random=lambda: 0.5,
        ) as client:
            yield Site(fake, client, folder, clock)
