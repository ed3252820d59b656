"""`gpuctl migrate` on a fake Proxmox VE and in the demo, from the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuctl.cli.main import main
from gpuctl.model.schema import FOLDER
from tests.cli.calling import CLOCK, Called, call
from tests.conftest import Stream
from tests.fakes.certificates import CertificateAuthority
from tests.fakes.gpu_cluster import Card, GpuCluster
from tests.fakes.http_server import Reply, Request, ServerTls
from tests.fakes.kubernetes import FakeKubernetes
from tests.fakes.kubernetes_answers import NODES
from tests.fakes.kubernetes_objects import GPU, node_json
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.proxmox import SECRET, TOKEN_ID, FakeProxmox, Fault
from tests.fakes.proxmox_state import recorded_cluster
from tests.spawning import PATIENCE_SECONDS, installed_script, script_environ

ONE, TWO, THREE = "gpu-node-1", "gpu-node-2", "gpu-node-3"
TO_TWO = ("--to", TWO)


class Live:
    """A cluster whose tasks end with the first look at them, and calls of gpuctl on it."""

    def __init__(self, fake: FakeProxmox, authority: CertificateAuthority, folder: Path) -> None:
        self.fake, self.folder = fake, folder
        self.config = folder / "config.yaml"
        self.sections = [
            f"proxmox: {{endpoints: [{', '.join(fake.endpoints)}], token_id: '{TOKEN_ID}', "
            f"token_env: PVE_TOKEN, ca_file: {authority.cert}}}"
        ]

    @property
    def environ(self) -> dict[str, str]:
        lines = ["current_context: hk", "contexts:", "  hk:", "    cluster: hk"]
        self.config.write_text("\n".join([*lines, *(f"    {one}" for one in self.sections)]))
        return {
            "GPUCTL_CONFIG": str(self.config),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PVE_TOKEN": SECRET,
        }

    def __call__(self, *words: str) -> Called:
        return call("migrate", *words, environ=self.environ)

    def history(self, *words: str) -> Called:
        return call("history", *words, environ=self.environ)

    def node_of(self, vmid: int) -> str:
        return self.fake.cluster.vms[vmid].node

    @property
    def writes(self) -> list[str]:
        return [*self.fake.sent("POST"), *self.fake.sent("DELETE"), *self.fake.sent("PUT")]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def tls(authority: CertificateAuthority) -> ServerTls:
    pair = authority.issue("pve")
    return ServerTls(pair.cert, pair.key)


@pytest.fixture
def live(authority: CertificateAuthority, tls: ServerTls, tmp_path: Path) -> Iterator[Live]:
    with FakeProxmox(recorded_cluster(), tls=tls, count=1, advance_on_poll=10_000) as fake:
        yield Live(fake, authority, tmp_path)


def valid(document: Any) -> Any:
    schema = json.loads((FOLDER / "outcome.json").read_text())
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
    return document


# -- a real cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["7.4", "8.4", "9.2"])
@pytest.mark.parametrize("vm", ["104", "vm/104", "web-plain"])
def test_a_vm_is_migrated_and_the_outcome_says_where_it_runs(
    live: Live, release: str, vm: str
) -> None:
    live.fake.cluster.release = release
    called = live(vm, *TO_TWO, "--yes", "-o", "json")
    assert called.code == 0, called.err
    (step,) = valid(called.document)["steps"]
    assert (step["workload"], step["status"], step["changed"]) == ("vm/104", "done", True)
    assert (step["from"]["node"], step["to"]["node"]) == (ONE, TWO)
    assert step["landed"]["node"] == TWO
    assert step["detail"]["check.lock"] == "ok: no job holds it"
    assert live.node_of(104) == TWO
    assert len(live.writes) == 1


def test_a_dry_run_sends_no_write_and_shows_the_checklist(live: Live) -> None:
    called = live("104", *TO_TWO, "--dry-run")
    assert called.code == 0, called.err
    assert "ok    lock" in called.out
    assert "?     kubernetes-node" in called.out
    assert "about 16.0 GiB to copy" in called.out
    assert f"vm/104 from {ONE} to {TWO}: would be migrated" in called.out
    assert live.writes == []
    assert not (live.folder / "state").exists()
    assert live("104", *TO_TWO, "--dry-run", "--exit-code").code == 3


def test_raw_passthrough_is_refused_with_what_to_do_instead(live: Live) -> None:
    called = live("102", *TO_TWO, "--yes")
    assert called.code == 5
    assert "FAIL  passthrough" in called.out
    assert "mapped vGPU" in called.out
    assert live.writes == []
    assert live.history("-o", "json").document["items"] == []


@pytest.mark.parametrize(
    ("vm", "words", "check"),
    [
        ("106", TO_TWO, "lock"),
        ("107", TO_TWO, "vm"),
        ("999", TO_TWO, "vm"),
        ("104", ("--to", "gpu-node-8"), "target"),
        ("104", ("--to", "nowhere"), "target"),
        ("104", (*TO_TWO, "--offline"), "state"),
        ("103", ("--to", "gpu-node-5"), "passthrough"),
        ("104", (*TO_TWO, "--target-storage", "nvme"), "storages"),
    ],
)
def test_each_failed_check_refuses(live: Live, vm: str, words: tuple[str, ...], check: str) -> None:
    called = live(vm, *words, "--yes", "-o", "json")
    assert called.code == 5, called.err
    detail = called.document["steps"][0]["detail"]
    assert detail[f"check.{check}"].startswith("fail: ")
    assert live.writes == []


def test_a_name_that_several_vms_have_is_refused_with_their_ids(live: Live) -> None:
    live.fake.cluster.vms[110].name = "web-plain"
    called = live("web-plain", *TO_TWO, "--yes")
    assert called.code == 5
    assert "VMs 104, 110" in called.out


def test_a_vm_that_is_there_already_is_unchanged(live: Live) -> None:
    called = live("104", "--to", ONE, "--yes")
    assert (called.code, live.writes) == (0, [])
    assert "unchanged" in called.out


def test_a_pinned_vm_has_its_own_override(live: Live) -> None:
    live.fake.cluster.vms[104].tags = ("gpuctl-pinned",)
    called = live("104", *TO_TWO, "--yes")
    assert called.code == 5
    assert "--force-pinned" in called.out
    assert live("104", *TO_TWO, "--yes", "--force-pinned").code == 0


def test_local_disks_go_along_on_request(live: Live) -> None:
    vm = live.fake.cluster.vms[105]
    vm.ha_state, vm.dependents = None, []
    vm.local_disks = [disk for disk in vm.local_disks if not disk.cdrom]
    called = live("105", *TO_TWO, "--yes")
    assert called.code == 5
    assert "--with-local-disks" in called.out
    called = live("105", *TO_TWO, "--yes", "--with-local-disks", "--bwlimit", "51200")
    assert called.code == 0, called.out
    (form,) = (dict(r.params) for r in live.fake.requests if r.method == "POST")
    assert form == {"target": TWO, "online": "1", "with-local-disks": "1", "bwlimit": "51200"}


def test_nobody_to_ask_is_a_refusal(live: Live) -> None:
    called = live("104", *TO_TWO)
    assert (called.code, called.out, live.writes) == (5, "", [])
    assert "--yes" in called.err


@pytest.mark.parametrize(("answer", "code"), [("\n", 5), ("n\n", 5), ("", 5), ("y\n", 0)])
def test_the_question_states_what_it_is_about(live: Live, answer: str, code: int) -> None:
    out, err = Stream(), Stream(tty=True)
    ended = main(
        ["migrate", "104", *TO_TWO],
        environ=live.environ,
        stdin=Stream(answer, tty=True),
        stdout=out,
        stderr=err,
        clock=CLOCK,
    )
    assert ended == code
    question = f"Migrate VM 104 (web-plain) live from {ONE} to {TWO}, about 16.0 GiB to copy"
    assert question in err.getvalue()
    assert "without having checked kubernetes-node" in err.getvalue()
    assert len(live.writes) == (0 if code else 1)


@pytest.mark.parametrize(
    "words",
    [("--migration-type", "insecure"), ("--migration-network", "10.0.0.0/24")],
)
def test_roots_own_options_are_refused_before_anything_is_asked(
    live: Live, words: tuple[str, ...]
) -> None:
    called = live("104", *TO_TWO, "--yes", *words)
    assert called.code == 2
    assert f"{words[0]} can't be used with an API token" in called.err
    assert live.fake.requests == []


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("104", "--bwlimit", "-1"),
        ("104", "--exit-code"),
        ("104", "--wait-lock", "soon"),
        ("--follow", "nonsense"),
        ("104", "--follow", f"UPID:{ONE}:00000001:00000001:00000001:qmigrate:104:root@pam:"),
        ("--follow", f"UPID:{ONE}:00000001:00000001:00000001:vzdump:104:root@pam:"),
    ],
)
def test_wrong_options_are_usage_errors(live: Live, words: tuple[str, ...]) -> None:
    assert live(*words).code == 2
    assert live.writes == []


def test_without_proxmox_it_says_what_to_configure() -> None:
    called = call("migrate", "104", "--to", TWO, "--dry-run")
    assert called.code == 2
    assert "proxmox.endpoints" in called.err


def test_a_failed_migration_that_left_the_vm_alone_ends_with_7(live: Live) -> None:
    live.fake.cluster.vms[104].migration = "breaks"
    called = live("104", *TO_TWO, "--yes")
    assert called.code == 7
    assert "Broken pipe" in called.out
    assert live.history("-o", "json").document["items"][0]["exit_code"] == 7


def test_started_and_not_waited_for_it_can_be_followed(live: Live) -> None:
    called = live("104", *TO_TWO, "--yes", "--no-wait")
    assert called.code == 0, called.err
    assert "1 migration started" in called.out
    upid = live.fake.only_task().upid
    assert f"gpuctl --context hk migrate --follow '{upid}'" in called.out
    followed = live("--follow", upid, "-o", "json")
    assert followed.code == 0, followed.err
    document = valid(followed.document)
    assert document["steps"][0]["landed"]["node"] == TWO
    (run,) = live.history("-o", "json").document["items"]
    assert document["run_id"] == run["run_id"]
    assert len(live.writes) == 1


def test_somebody_elses_migration_can_be_followed(live: Live) -> None:
    live("104", *TO_TWO, "--yes", "--no-wait")
    (live.folder / "state" / "gpuctl").rename(live.folder / "elsewhere")
    upid = live.fake.only_task().upid
    live.fake.advance(upid, 2)
    called = live("--follow", upid, "-o", "json")
    assert called.code == 0, called.err
    assert called.document["steps"][0]["to"]["node"] == TWO


# -- with Kubernetes beside it -------------------------------------------------------------------


def test_a_kubernetes_node_has_to_be_drained(live: Live) -> None:
    with FakeKubernetes(CLOCK.at) as kubernetes:
        node = node_json("k8s-gpu-worker-1", {GPU: 4})
        kubernetes.state.add(NODES, node)
        live.sections.append(f"kubernetes: {{kubeconfig: {kubernetes.kubeconfig(live.folder)}}}")
        called = live("110", "--to", ONE, "--yes")
        assert called.code == 5
        assert "FAIL  kubernetes-node" in called.out
        assert "--drained" in called.out
        called = live("110", "--to", ONE, "--yes", "--drained")
        assert called.code == 0, called.err
        plain = live("104", *TO_TWO, "--dry-run")
        assert "ok    kubernetes-node" in plain.out


def test_a_kubernetes_that_can_not_be_asked_is_no_all_clear(live: Live) -> None:
    with FakeKubernetes(CLOCK.at) as kubernetes:
        kubernetes.intercept = lambda request: Reply(403)
        live.sections.append(f"kubernetes: {{kubeconfig: {kubernetes.kubeconfig(live.folder)}}}")
        called = live("104", *TO_TWO, "--yes")
        assert called.code == 5
        assert "Kubernetes node can't be told" in called.err
        assert live.writes == []
        gone = f"UPID:{ONE}:00000001:00000001:00000001:qmigrate:104:root@pam:"
        assert "Kubernetes" not in live("--follow", gone).err


# -- the best target -----------------------------------------------------------------------------


def test_auto_takes_the_best_node_that_offers_the_mapping(live: Live) -> None:
    cards = (
        Card(ONE, 0, 96, 70_000, "vm/101"),
        Card(TWO, 0, 70, 8_000),
        Card(THREE, 0, 12, 8_000),
        Card("gpu-node-5", 0, 1, 1_000),
    )
    with FakePrometheus(GpuCluster(cards)) as metrics:
        live.sections.append(f"prometheus: {{url: {metrics.url}}}")
        called = live("101", "--to", "auto", "--yes", "-o", "json")
    assert called.code == 0, called.err
    (step,) = called.document["steps"]
    assert step["to"]["node"] == THREE
    assert step["detail"]["auto"].startswith(f"{THREE} scores ")
    assert "offer a100-vgpu" in step["detail"]["auto"]
    assert live.node_of(101) == THREE


def test_auto_without_metrics_decides_nothing(live: Live) -> None:
    called = live("101", "--to", "auto", "--yes")
    assert called.code == 2
    assert "no source of GPU metrics" in called.err
    assert live.writes == []


def test_auto_takes_the_node_with_the_most_memory_for_a_vm_without_gpu(live: Live) -> None:
    live.fake.cluster.nodes["gpu-node-4"].used_bytes = 1 << 30
    called = live("104", "--yes", "-o", "json")
    assert called.code == 0, called.err
    assert live.node_of(104) == "gpu-node-4"


def test_auto_says_why_a_vm_can_go_nowhere(live: Live) -> None:
    called = live("102", "--yes")
    assert called.code == 5
    assert "FAIL  passthrough" in called.out


# -- the demo ------------------------------------------------------------------------------------


class Demo:
    def __init__(self, folder: Path) -> None:
        self.environ = {"XDG_STATE_HOME": str(folder)}

    def __call__(self, *words: str) -> Called:
        return call("--demo", *words, environ=self.environ)


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def test_the_demo_moves_a_vm_with_progress_and_remembers_it(demo: Demo) -> None:
    called = demo("migrate", "vm/101", "--to", "hk-gpu-02", "--yes", "-o", "json")
    assert called.code == 0, called.err
    document = valid(called.document)
    (step,) = document["steps"]
    assert document["simulated"] is True
    assert step["landed"]["node"] == "hk-gpu-02"
    assert "memory: 50 %, 48.0 of 96.0 GiB" in called.err
    seen = demo("heatmap", "-o", "json").document
    (there,) = [gpu for gpu in seen["items"] if "vm/101" in gpu["workloads"]]
    assert (there["node"], there["gpu"]) == ("hk-gpu-02", step["landed"]["gpu"])
    again = demo("migrate", "vm/101", "--to", "hk-gpu-02", "--yes")
    assert (again.code, "unchanged" in again.out) == (0, True)
    assert demo("history", "-o", "json").document["items"][0]["command"] == "migrate"
    assert demo("demo", "reset").code == 0


def test_the_demo_chooses_a_target_and_explains_it(demo: Demo) -> None:
    called = demo("migrate", "101", "--to", "auto", "--yes")
    assert called.code == 0, called.err
    assert "auto: hk-gpu-" in called.err
    assert "the best of" in called.err


def test_the_demo_refuses_raw_passthrough_and_unknown_vms(demo: Demo) -> None:
    called = demo("migrate", "103", "--to", "hk-gpu-02", "--yes")
    assert called.code == 5
    assert "FAIL  passthrough" in called.out
    assert demo("migrate", "999", "--yes").code == 5
    assert demo("migrate", "101", "--to", "hk-gpu-99", "--yes").code == 5


def test_a_dry_run_of_the_demo_leaves_no_state(demo: Demo, tmp_path: Path) -> None:
    assert demo("migrate", "101", "--dry-run").code == 0
    assert list(tmp_path.iterdir()) == []
    assert (
        demo("migrate", "--follow", f"UPID:{ONE}:00000001:00000001:00000001:qmigrate:1:a@b:").code
        == 2
    )


# -- a process that is killed or interrupted -----------------------------------------------------


class Held(Fault):
    """The first look at the task is held until the test lets it go, and then gets no answer."""

    reached: threading.Event

    def matches(self, request: Request) -> bool:
        is_it = super().matches(request)
        if is_it:
            self.reached.set()
        return is_it


@contextmanager
def waiting(live: Live, *words: str) -> Iterator[tuple[subprocess.Popen[str], threading.Event]]:
    """`gpuctl migrate WORDS` as a process, once it waits for its task; and what lets it go on."""
    go_on, reached = threading.Event(), threading.Event()
    lost = replace(Reply(596, reason="Connection timed out"), wait_for=go_on)
    held = Held("GET", r"/tasks/.*/status$", lost)
    held.reached = reached
    live.fake.faults.append(held)
    with subprocess.Popen(
        [installed_script(), "migrate", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=script_environ(**live.environ),
    ) as process:
        try:
            assert reached.wait(PATIENCE_SECONDS), "it never looked at the task"
            yield process, go_on
        finally:
            process.kill()
            go_on.set()


def test_after_a_kill_the_history_knows_the_upid_and_it_can_be_followed(live: Live) -> None:
    with waiting(live, "104", *TO_TWO, "--yes") as (process, _):
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)
    upid = live.fake.only_task().upid
    (run,) = live.history("-o", "json").document["items"]
    assert (run["state"], run["steps"][0]["status"]) == ("abandoned", "unknown")
    assert run["steps"][0]["detail"] == {"upid": upid}
    assert f"--follow '{upid}'" in live.history(run["run_id"]).out
    followed = live("--follow", upid)
    assert followed.code == 0, followed.err
    assert live("101", *TO_TWO, "--yes").code == 0
    closed = live.history("-o", "json").document["items"][-1]
    assert (closed["state"], closed["steps"][0]["status"]) == ("ended", "done")
    assert len(live.writes) == 2


def test_the_first_signal_leaves_the_migration_running(live: Live) -> None:
    live.fake.advance_on_poll = 1
    with waiting(live, "104", *TO_TWO, "--yes") as (process, go_on):
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        heard = ""
        while "SIGINT" not in heard:
            heard = process.stderr.readline()
            assert heard, "the signal was not acknowledged"
        go_on.set()
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    task = live.fake.only_task()
    assert process.returncode == 130
    assert "left running" in heard
    assert f"--follow '{task.upid}'" in out
    assert task.exitstatus is None
    assert live.fake.sent("DELETE") == []
    again = live("104", *TO_TWO, "--yes")
    assert again.code == 5
    assert "being migrated already" in again.out
    assert len(live.writes) == 1


def test_the_second_signal_ends_it_at_once(live: Live) -> None:
    with waiting(live, "104", *TO_TWO, "--yes") as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        heard = ""
        while "SIGINT" not in heard:
            heard = process.stderr.readline()
            assert heard, "the signal was not acknowledged"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "unknown" in out
    assert "may still be under way" in err


def test_while_it_waits_another_acting_run_is_locked_out_and_following_is_not(live: Live) -> None:
    with waiting(live, "104", *TO_TWO, "--yes") as (process, _):
        called = live("112", "--to", THREE, "--yes")
        assert called.code == 8
        assert f"migrate, pid {process.pid}" in called.err
        followed = live("--follow", live.fake.only_task().upid)
        assert followed.code == 0, followed.err
        assert process.poll() is None
