"""`gpuctl --demo evict`, `history` and `demo reset`, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuctl.actions.lock import Holder, run_lock
from gpuctl.actions.scope import scope_of
from gpuctl.cli.main import main
from gpuctl.model.schema import FOLDER
from tests.cli.calling import CLOCK, Called, call
from tests.conftest import Stream
from tests.spawning import installed_script, script_environ

HOT = "hk-gpu-03/1"


class Demo:
    """Calls with a state folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"XDG_STATE_HOME": str(folder)}

    def __call__(self, *words: str, stdin: str = "") -> Called:
        return call("--demo", *words, environ=self.environ, stdin=stdin)

    def hot(self) -> Any:
        return self("heatmap", "-o", "json").document["summary"]["hot"]


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


def valid(kind: str, document: Any) -> Any:
    schema = json.loads((FOLDER / f"{kind}.json").read_text())
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
    assert document["kind"] == kind
    return document


def test_an_eviction_cools_the_card_and_the_heat_map_shows_it(demo: Demo) -> None:
    before = demo("heatmap").out
    called = demo("evict", "--gpu", HOT, "--max", "1", "--soft-taint", "--yes", "-o", "json")
    assert called.code == 0, called.err
    outcome = valid("outcome", called.document)
    (step,) = outcome["steps"]
    assert (step["status"], step["from"]["node"], step["changed"]) == ("done", "hk-gpu-03", True)
    assert step["landed"]["node"] != "hk-gpu-03"
    assert step["landed"]["cooler"] is True
    assert outcome["holds"] == [
        {"kind": "soft-taint", "node": "hk-gpu-03", "placed": True, "removed": True}
    ]
    after = demo("heatmap", "-o", "json").document
    assert after["summary"]["hot"] == 0
    landed = next(
        gpu
        for gpu in after["items"]
        if (gpu["node"], gpu["gpu"]) == (step["landed"]["node"], step["landed"]["gpu"])
    )
    assert step["workload"] in landed["workloads"]
    assert landed["utilization_pct"] == pytest.approx(step["landed"]["utilization_pct"], abs=1)
    assert demo("demo", "reset").code == 0
    assert demo("heatmap").out == before


def test_the_demo_without_state_is_untouched_by_a_dry_run(demo: Demo, tmp_path: Path) -> None:
    before = demo("heatmap").out
    called = demo("evict", "--gpu", HOT, "--dry-run")
    assert called.code == 0
    lines = called.out.splitlines()
    assert all(line.startswith("DRY RUN") for line in lines)
    assert demo("evict", "--gpu", HOT, "--dry-run", "--exit-code").code == 3
    assert demo("heatmap").out == before
    assert list(tmp_path.iterdir()) == []


def test_the_same_state_lands_the_successor_on_the_same_card(tmp_path: Path) -> None:
    landed = []
    for name in ("one", "two"):
        demo = Demo(tmp_path / name)
        document = demo("evict", "--gpu", HOT, "--yes", "-o", "json").document
        landed.append([step["landed"] for step in document["steps"]])
    assert landed[0] == landed[1]


def test_protected_pods_are_listed_with_rule_and_override(demo: Demo) -> None:
    called = demo("evict", "--gpu", HOT, "--yes", "-o", "json")
    assert called.code == 4
    refused = [step for step in called.document["steps"] if step["status"] == "refused"]
    assert [step["detail"]["rule"] for step in refused] == ["not-evictable"]
    assert "--force-not-evictable" in refused[0]["reason"]
    pod = refused[0]["workload"]
    only = demo("evict", pod, "--yes")
    assert only.code == 5
    forced = demo("evict", pod, "--yes", "--force-not-evictable")
    assert forced.code == 0
    assert f"{pod} from {HOT}: evicted" in forced.out


def test_nobody_to_ask_is_a_refusal_that_changes_nothing(demo: Demo) -> None:
    called = demo("evict", "--gpu", HOT)
    assert called.code == 5
    assert called.out == ""
    assert "--yes" in called.err
    assert demo.hot() == 1


def asked(tmp_path: Path, answer: str, *words: str) -> tuple[int, str, str]:
    out, err = Stream(), Stream(tty=True)
    code = main(
        ["--demo", "evict", *words],
        environ={"GPUCTL_CONFIG": "/dev/null", "XDG_STATE_HOME": str(tmp_path)},
        stdin=Stream(answer, tty=True),
        stdout=out,
        stderr=err,
        clock=CLOCK,
    )
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "maybe\n", "yesterday\n"])
def test_anything_but_yes_means_no(tmp_path: Path, answer: str) -> None:
    code, out, err = asked(tmp_path, answer, "--gpu", HOT, "--max", "2")
    assert code == 5
    assert out == ""
    assert "Evict 2 pods" in err
    assert HOT in err
    assert "[y/N]" in err


def test_yes_means_yes(tmp_path: Path) -> None:
    code, out, _ = asked(tmp_path, "y\n", "--gpu", HOT, "--max", "1")
    assert code == 0
    assert "1 evicted" in out


def test_the_widest_evictions_ask_for_the_name_of_the_cluster(tmp_path: Path) -> None:
    words = ("-l", "app,!nothing", "--force-stateful", "--force-not-evictable", "--max", "11")
    code, _, err = asked(tmp_path, "y\n", *words)
    assert code == 5
    assert "type hk to go on" in err
    code, out, _ = asked(tmp_path, "hk\n", *words)
    assert code in (0, 4)
    assert "11 evicted" in out


def test_another_run_that_acts_is_told_in_one_line(demo: Demo, tmp_path: Path) -> None:
    scope = scope_of(demo.environ, None, "hk-night", make=True)
    holder = Holder(pid=4711, host="admin", run="r", command="rebalance", since=CLOCK.at)
    with run_lock(scope.lock_path, holder, clock=CLOCK, subject="x", wait=lambda _: None):
        called = demo("evict", "--gpu", HOT, "--yes", "-q")
        assert called.code == 8
        assert called.err.splitlines()[-1] == (
            "error: another gpuctl acts on the demo hk-night: rebalance, pid 4711 on admin, for 0s"
        )
    assert demo.hot() == 1


def test_quiet_prints_nothing_when_all_went_well(demo: Demo) -> None:
    called = demo("evict", "--gpu", HOT, "--max", "1", "--yes", "-q")
    assert (called.code, called.out, called.err) == (0, "", "")


def test_a_saved_snapshot_cannot_be_acted_on(tmp_path: Path) -> None:
    called = call("evict", "--node", "x", "--snapshot", str(tmp_path / "s.json"))
    assert called.code == 5


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a/b", "--node", "hk-gpu-03"),
        ("--gpu", "hk-gpu-03"),
        ("--gpu", "hk-gpu-03/9"),
        ("--node", "hk-gpu-99"),
        ("--node", "hk-gpu-03", "--max", "0"),
        ("--node", "hk-gpu-03", "--no-wait", "--cordon"),
        ("--node", "hk-gpu-03", "--soft-taint", "--cordon"),
        ("--node", "hk-gpu-03", "--exit-code"),
        ("-l", "app in"),
        ("-l", "app", "--grace-period", "0"),
        ("-l", "app", "--wait-lock", "soon"),
    ],
)
def test_wrong_options_are_usage_errors(demo: Demo, words: tuple[str, ...]) -> None:
    called = demo("evict", *words)
    assert called.code == 2, called.err


def test_a_vm_is_not_evicted(demo: Demo) -> None:
    called = demo("evict", "vm/107", "--yes")
    assert called.code == 5
    assert "only pods" in called.out


def test_a_reader_that_goes_away_does_not_change_how_it_ended(tmp_path: Path) -> None:
    """`gpuctl evict ... | true` on a card with a protected pod still ends with 4."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [installed_script(), "--demo", "evict", "--gpu", HOT, "--yes", "-q"],
            stdout=closed,
            stderr=subprocess.PIPE,
            env=script_environ(XDG_STATE_HOME=str(tmp_path), GPUCTL_CONFIG="/dev/null"),
            check=False,
        )
    assert (done.returncode, done.stderr) == (4, b"")
    assert Demo(tmp_path).hot() == 0


def test_refusals_of_one_kind_are_grouped(tmp_path: Path) -> None:
    words = ("--demo-scenario", "mig-mixed", "evict", "-l", "!nothing", "--yes")
    called = call(*words, environ={"XDG_STATE_HOME": str(tmp_path)})
    assert called.code == 5
    lines = called.out.splitlines()
    assert sum("--force-unmanaged" in line for line in lines) == 1
    assert any("3 refused: dev/nb-1, dev/nb-2, dev/nb-3" in line for line in lines)
    assert lines[-1] == "19 refused"
