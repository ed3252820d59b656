"""What a `kill -9` or a signal leaves behind, and that the next run cleans up: real processes."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import CLOCK, Called, call
from tests.fakes.http_server import Reply, Request
from tests.fakes.kubernetes import FakeKubernetes, Right
from tests.fakes.kubernetes_answers import BY_KIND, NODES, PODS, Refused, json_reply, success
from tests.fakes.kubernetes_objects import GPU, PodSpec, node_json
from tests.spawning import PATIENCE_SECONDS, installed_script, script_environ, spawn

CHAT = ("ReplicaSet", "chat-5d8f7c")


class Scene:
    """A cluster, and a process that evicts in it and is stopped at one request."""

    def __init__(self, fake: FakeKubernetes, folder: Path) -> None:
        self.fake, self.folder = fake, folder
        self.reached, self.go_on = threading.Event(), threading.Event()
        fake.state.add(NODES, node_json("gpu-a", {GPU: 4}))
        fake.state.add(NODES, node_json("gpu-b", {GPU: 4}))
        fake.state.landing = lambda pod: "gpu-b"
        for name in ("chat-a", "chat-b"):
            fake.state.add_pod(PodSpec(name, owner=CHAT, labels={"app": "chat"}))
        self.words = ["--kubeconfig", fake.kubeconfig(folder), "--yes"]

    @property
    def environ(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.folder / "state"), "GPUCTL_CONFIG": "/dev/null"}

    def stop_at(self, wanted: Callable[[Request], bool], *, answer: Callable[[], Reply]) -> None:
        """The first such request is held; `answer` is worked out before that."""

        def intercept(request: Request) -> Reply | None:
            if self.reached.is_set() or not wanted(request):
                return None
            reply = answer()
            self.reached.set()
            return Reply(
                reply.status,
                reply.body,
                content_type=reply.content_type,
                wait_for=self.go_on,
                drop=reply.drop,
            )

        self.fake.intercept = intercept

    @contextmanager
    def process(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """`gpuctl evict WORDS`, once it has come to the request at which it stops."""
        with subprocess.Popen(
            [installed_script(), "evict", *words, *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=script_environ(**self.environ),
        ) as process:
            try:
                assert self.reached.wait(PATIENCE_SECONDS), "it never came to the request"
                yield process
            finally:
                process.kill()
                self.go_on.set()

    def next_run(self, *words: str) -> Called:
        self.fake.state.settles_at_once = True
        return call("evict", *words, *self.words, environ=self.environ)

    def history(self) -> Any:
        return call("history", "-o", "json", environ=self.environ).document["items"]

    def node(self) -> Any:
        found = self.fake.state.get(NODES, "gpu-a")
        assert found is not None
        return found["spec"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with FakeKubernetes(CLOCK.at) as fake:
        made = Scene(fake, tmp_path)
        yield made
        made.go_on.set()


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction") and request.param("dryRun") is None


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("hold", ["--cordon", "--soft-taint"])
def test_killed_between_journal_and_call(scene: Scene, hold: str) -> None:
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a", hold) as process:
        assert scene.node().keys() >= {"unschedulable"} or scene.node()["taints"]
        killed(process)
    (run,) = scene.history()
    assert (run["state"], run["open_steps"]) == ("abandoned", ["s1"])
    assert scene.fake.state.evicted == []
    called = scene.next_run("prod/chat-b")
    assert called.code == 0, called.err
    assert scene.node() == {"providerID": "fake://gpu-a"}
    assert scene.fake.state.evicted == ["prod/chat-b"]
    new, old = scene.history()
    assert old["state"] == "ended"
    assert old["closed_by"] == new["run_id"]
    assert old["steps"][0]["status"] == "skipped"
    assert old["steps"][0]["changed"] is False


@pytest.mark.parametrize("hold", ["--cordon", "--soft-taint"])
def test_killed_between_call_and_journal(scene: Scene, hold: str) -> None:
    state = scene.fake.state

    def evicted() -> Reply:
        pod = state.get(PODS, "chat-a", "prod")
        assert pod is not None
        state.terminate(pod, None)
        return success(201)

    scene.stop_at(is_eviction, answer=evicted)
    with scene.process("prod/chat-a", hold) as process:
        killed(process)
    called = scene.next_run("prod/chat-a")
    assert called.code == 0, called.err
    assert "terminating already" in called.out
    assert state.evicted == ["prod/chat-a"]
    assert scene.node() == {"providerID": "fake://gpu-a"}
    old = scene.history()[-1]
    assert (old["steps"][0]["status"], old["steps"][0]["changed"]) == ("done", True)


def test_killed_between_the_journal_and_the_cordon(scene: Scene) -> None:
    scene.stop_at(lambda r: r.method == "PATCH", answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a", "--cordon") as process:
        killed(process)
    assert scene.history()[0]["open_holds"] == ["cordon of gpu-a"]
    assert scene.next_run("prod/chat-b").code == 0
    assert scene.history()[-1]["open_holds"] == []


def test_the_next_run_cleans_up_even_if_it_finds_nothing_to_do(scene: Scene) -> None:
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a", "--cordon") as process:
        killed(process)
    assert scene.next_run("prod/no-such-pod").code == 5
    assert scene.node() == {"providerID": "fake://gpu-a"}


def test_a_dry_run_cleans_nothing_up(scene: Scene) -> None:
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a", "--cordon") as process:
        killed(process)
    assert scene.next_run("prod/chat-b", "--dry-run").code == 0
    assert scene.node()["unschedulable"] is True


def test_while_a_run_acts_another_one_is_locked_out(scene: Scene) -> None:
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a") as process:
        called = scene.next_run("prod/chat-b")
        assert called.code == 8
        assert f"evict, pid {process.pid}" in called.err
        assert scene.history()[0]["state"] == "running"
    assert scene.next_run("prod/chat-b").code == 0


def poll_of_chat_a(scene: Scene) -> Callable[[Request], bool]:
    """A look at the pod after it was evicted."""

    def wanted(request: Request) -> bool:
        is_look = request.method == "GET" and request.path.endswith("/pods/chat-a")
        return is_look and bool(scene.fake.state.evicted)

    return wanted


def as_it_is(scene: Scene) -> Callable[[], Reply]:
    def answer() -> Reply:
        pod = scene.fake.state.get(PODS, "chat-a", "prod")
        assert pod is not None
        return json_reply(200, pod)

    return answer


def test_the_first_signal_waits_for_the_running_eviction_and_begins_no_other(scene: Scene) -> None:
    scene.stop_at(poll_of_chat_a(scene), answer=as_it_is(scene))
    with scene.process("-l", "app=chat", "--cordon") as process:
        process.send_signal(signal.SIGINT)
        scene.fake.state.step(60)
        scene.fake.state.run_owners()
        scene.go_on.set()
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, err
    assert "1 evicted, 1 skipped" in out
    assert "SIGINT came before it was begun" in out
    assert scene.node() == {"providerID": "fake://gpu-a"}
    assert scene.fake.state.evicted == ["prod/chat-a"]
    assert scene.history()[0]["state"] == "ended"


def test_sigterm_does_the_same_with_its_own_code(scene: Scene) -> None:
    scene.stop_at(poll_of_chat_a(scene), answer=as_it_is(scene))
    with scene.process("-l", "app=chat", "--cordon") as process:
        process.send_signal(signal.SIGTERM)
        scene.fake.state.step(60)
        scene.fake.state.run_owners()
        scene.go_on.set()
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143


def test_the_second_signal_stops_at_once_and_says_what_is_left(scene: Scene) -> None:
    scene.stop_at(poll_of_chat_a(scene), answer=as_it_is(scene))
    with scene.process("-l", "app=chat", "--cordon") as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        line = ""
        while "SIGINT" not in line:
            line = process.stderr.readline()
            assert line, "the first signal was not acknowledged"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "s1 (prod/chat-a) may still be under way" in err
    assert "gpuctl history" in err
    assert "unknown" in out
    assert scene.node()["unschedulable"] is True
    assert scene.next_run("prod/chat-b").code == 0
    assert scene.node() == {"providerID": "fake://gpu-a"}
    assert scene.fake.state.evicted == ["prod/chat-a", "prod/chat-b"]


def test_the_person_at_a_terminal_is_asked_and_may_say_no(scene: Scene) -> None:
    words = [word for word in scene.words if word != "--yes"]
    command = [installed_script(), "evict", "prod/chat-a", *words]
    with spawn(command, script_environ(**scene.environ)) as terminal:
        terminal.read_until("Evict 1 pod (prod/chat-a) from gpu-a? [y/N] ")
        terminal.type("\r")
        rest = terminal.read_to_end()
    assert "the answer was no" in rest
    assert terminal.process.returncode == 5
    assert scene.fake.state.evicted == []


def test_a_run_on_another_machine_keeps_out_until_its_lease_ran_out(
    scene: Scene, tmp_path: Path
) -> None:
    """Killed there, with a journal that this machine does not have."""
    scene.fake.state.add(BY_KIND["Namespace"], {"metadata": {"name": "gpuctl"}})
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a") as process:
        killed(process)
    here = {**scene.environ, "XDG_STATE_HOME": str(tmp_path / "elsewhere")}
    called = call("evict", "prod/chat-b", *scene.words, environ=here)
    assert called.code == 8
    assert f"evict, pid {process.pid} on " in called.err
    lease = scene.fake.state.get(BY_KIND["Lease"], "gpuctl-run", "gpuctl")
    assert lease is not None
    old = {**lease["spec"], "renewTime": "2025-01-01T00:00:00.000000Z"}
    scene.fake.state.change(BY_KIND["Lease"], {**lease, "spec": old})
    scene.fake.state.settles_at_once = True
    assert call("evict", "prod/chat-b", *scene.words, environ=here).code == 0
    given_back = scene.fake.state.get(BY_KIND["Lease"], "gpuctl-run", "gpuctl")
    assert given_back is not None
    assert given_back["spec"]["holderIdentity"] == ""


def test_what_cannot_be_cleaned_up_is_said_even_if_the_run_then_does_nothing(scene: Scene) -> None:
    scene.stop_at(is_eviction, answer=lambda: Reply(drop=True))
    with scene.process("prod/chat-a", "--cordon") as process:
        killed(process)
    scene.fake.rights["oncall"] = (Right(("get", "list", "create"), ("*",), "*"),)
    words = [word for word in scene.words if word != "--yes"]
    called = call("evict", "prod/chat-b", *words, environ=scene.environ)
    assert called.code == 5
    assert called.err.count("the cordon of gpu-a, left by run") == 1
    again = scene.next_run("prod/chat-b", "-o", "json")
    assert again.code == 0
    assert again.err.count("the cordon of gpu-a, left by run") == 1
    assert len(again.document["warnings"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_handled", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 26))
def test_killed_at_any_request(scene: Scene, number: int, is_handled: bool) -> None:
    """Whatever was under way: the next run leaves no hold, evicts nothing twice, closes all."""
    count = 0

    def nth(request: Request) -> bool:
        nonlocal count
        count += 1
        return count == number

    scene.fake.state.settles_at_once = True
    fake = scene.fake

    def intercept(request: Request) -> Reply | None:
        if scene.reached.is_set() or not nth(request):
            return None
        if is_handled:
            with suppress(Refused):
                fake._handle(request)
        scene.reached.set()
        return Reply(drop=True, wait_for=scene.go_on)

    fake.intercept = intercept
    command = [installed_script(), "evict", "prod/chat-a", "prod/chat-b", "--soft-taint"]
    with subprocess.Popen(
        [*command, *scene.words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=script_environ(**scene.environ),
    ) as process:
        while not scene.reached.wait(0.01) and process.poll() is None:
            pass
        process.kill()
        process.communicate()
        scene.go_on.set()
    evicted = list(fake.state.evicted)
    assert len(set(evicted)) == len(evicted)
    called = scene.next_run("-l", "app=none")
    assert called.code == 0, called.err
    assert scene.node() == {"providerID": "fake://gpu-a"}
    assert fake.state.evicted == evicted
    for run in scene.history():
        assert run["state"] == "ended"
        assert run["open_steps"] == run["open_holds"] == []
        done = [step["workload"] for step in run["steps"] if step["changed"]]
        assert set(done) == set(evicted)
