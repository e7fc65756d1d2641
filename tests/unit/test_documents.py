"""The front page and the walks in docs/ show what a user gets today, computed here without a cluster."""

from __future__ import annotations

import copy
import doctest
import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kai_sched import Config, CycleResult, run_cycle
from kai_sched.files.controllers.registry import CONTROLLERS
from kai_sched.files.load import load
from kai_sched.model.store import Cluster
from kai_sched.reconcile.grouping.draft import BUILD, INFERENCE, TRAIN
from kai_sched.reconcile.grouping.registry import RULES
from kai_sched.reconcile.status.queue_status import queue_statuses
from kai_sched.reconcile.status.usage import QueueUsage
from tests.cluster.play import NEXT
from tests.command_blocks import run_script, scripts
from tests.example_company import DUMPS, FOLDER, dumped
from tests.pictures import FOLDER as PICTURES
from tests.pictures import pictures
from tests.shown_outputs import Answer, answer, documents, example_folder, filled
from tests.tree import ROOT
from tests.unit.cli.command import environment

README = (ROOT / "README.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
WORKLOADS = (ROOT / "docs" / "workloads.md").read_text()
SIMULATE = (ROOT / "docs" / "simulate.md").read_text()
WHY = (ROOT / "docs" / "why.md").read_text()
LIBRARY = (ROOT / "docs" / "library.md").read_text()
DEFAULT_QUEUES = ROOT / "kai_sched" / "operator" / "default_queues.yaml"
CRD = ROOT / "crds" / "queues.scheduling.run.ai.yaml"
NOW_NS = 1_800_000_000 * 10**9


@pytest.mark.parametrize("path", documents(), ids=str)
def test_a_document_shows_what_its_commands_print(path: Path) -> None:
    text = (ROOT / path).read_text()
    with example_folder():
        assert filled(text, answer) == text, "run `make docs`"


@pytest.mark.slow
@pytest.mark.parametrize("path", scripts())
def test_the_other_commands_of_a_document_succeed(path: str) -> None:
    with example_folder():
        done = run_script(scripts()[path], Path.cwd())
    assert done.returncode == 0, done.stderr


def test_the_drawings_are_what_the_scheduler_decides() -> None:
    drawn = pictures()
    assert {name: (PICTURES / name).read_text() for name in drawn} == drawn, "run `make docs`"


@pytest.mark.parametrize("name", sorted(DUMPS))
def test_the_example_cluster_is_up_to_date(name: str) -> None:
    found = msgspec.json.decode(gzip.decompress((ROOT / FOLDER / name).read_bytes()))
    assert found == dumped(DUMPS[name]), "run `make docs`"


def test_only_what_commands_print_is_replaced() -> None:
    """Also of a command of two lines; ``$?`` is the exit status of the one before it."""
    text = "$ kai-sched a\n```console\n$ kai-sched b \\\n    c\nold\n$ echo $?\n7\n```\n\n```\n$ kai-sched d\n```\n"
    asked: list[str] = []

    def ask(command: str) -> Answer:
        asked.append(" ".join(command.split()))
        return "new", 3

    assert filled(text, ask) == text.replace("old", "new").replace("7", "3")
    assert asked == ["kai-sched b c"]


def test_commands_of_others_are_not_run() -> None:
    with pytest.raises(ValueError, match="'rm x' is shown as a command of kai-sched"):
        answer("rm x")


def test_errors_are_shown_and_warnings_are_not() -> None:
    with example_folder():
        text, status = answer("kai-sched explain nothing examples/company/cluster.json.gz")
    assert (text.splitlines()[0].startswith("error: NAME: there is no workload 'nothing'"), status) == (True, 2)
    assert "warning" not in text


@pytest.mark.slow
def test_the_library_page_shows_what_the_example_prints() -> None:
    command = [sys.executable, "examples/library.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    assert f"```\n{done.stdout}```\n" in LIBRARY


@pytest.mark.slow
def test_the_library_page_can_be_typed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows each prompt is what it gives."""
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```pycon\n(.*?)```", LIBRARY, re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "library.md", None, 0)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert (len(blocks), told) == (3, [])


@pytest.mark.slow
def test_the_front_page_program_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the first answer that docs/library.md shows."""
    monkeypatch.chdir(ROOT)
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(program, {})
    assert f"{capsys.readouterr().out}>>> for change" in LIBRARY


@pytest.mark.slow
def test_the_other_example_runs() -> None:
    command = [sys.executable, "examples/what_if.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
    assert "llama-pretraining waits: no room; claim 16 < 9 + 24\nstarts: llama-pretraining (PodGroup)" in done.stdout


def test_the_workloads_whose_pods_are_made_are_those_of_the_list() -> None:
    (line,) = re.findall(r"^- It does so for (.*)\.$", SIMULATE, re.MULTILINE)
    listed = re.split(r", | and ", re.sub(r" \([^)]*\)", "", line))
    assert sorted(listed) == sorted({kind for _, kind in CONTROLLERS})


def manifests_of(document: str) -> list[Any]:
    """The objects in the YAML blocks of a document."""
    blocks = re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)
    return [each for block in blocks for each in yaml.safe_load_all(block) if "kind" in each]


@pytest.fixture(scope="module")
def manifests() -> list[Any]:
    """The queues of the walk, the pod ``hello`` as it runs, and ``greedy``, which asks for 6 GPUs."""
    found = manifests_of(INSTALL)
    (pod,) = [each for each in found if each["kind"] == "Pod"]
    hello, greedy = copy.deepcopy(pod), copy.deepcopy(pod)
    hello["metadata"] |= {"namespace": "default", "uid": "1"}
    hello["spec"]["nodeName"] = "gpu-node-1"
    hello["status"] = {"phase": "Running"}
    greedy["metadata"] |= {"namespace": "default", "uid": "2", "name": "greedy"}
    greedy["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 6
    queues = [each for each in found if each["kind"] == "Queue"]
    return [*queues, hello, greedy, *yaml.safe_load_all(DEFAULT_QUEUES.read_text())]


def cycle_of(folder: Path, objects: list[Any]) -> tuple[Cluster, CycleResult]:
    """One cycle on these objects and the nodes of the example."""
    path = folder / "walk.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    (case,) = load([str(path), str(ROOT / "examples/teams/nodes.yaml")]).cases
    cluster = case.store.cluster()
    return cluster, run_cycle(cluster, Config(), NOW_NS)


@pytest.fixture(scope="module")
def decided(manifests: list[Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Cluster, CycleResult]:
    return cycle_of(tmp_path_factory.mktemp("walk"), manifests)


def test_the_pending_pod_says_what_it_says(decided: tuple[Cluster, CycleResult]) -> None:
    reason = decided[1].groups["default/greedy"].reason
    assert reason is not None
    assert f"  Warning  Unschedulable  4s    kai-scheduler  {reason.message}\n" in INSTALL


def test_queues_are_shown_as_kubectl_prints_them(manifests: list[Any], decided: tuple[Cluster, CycleResult]) -> None:
    """Those that the scheduler makes at its first start included."""
    cluster, result = decided
    status = queue_statuses(cluster, result.queues, Config(), QueueUsage(cluster, Config()))
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    columns = [each for each in version["additionalPrinterColumns"] if not each.get("priority")]
    rows = [["NAME", *(each["name"].upper() for each in columns)]]
    queues = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Queue"}
    for name, queue in sorted(queues.items()):
        whole = {"spec": queue["spec"], "status": status[name]}
        rows.append([name, *(shown(whole, each["jsonPath"]) for each in columns)])
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    lines = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    assert "$ kubectl get queues\n" + "\n".join(lines) + "\n$" in INSTALL


def shown(item: Any, path: str) -> str:
    """What is at a path of a printer column; nothing where nothing is there."""
    for key in re.split(r"(?<!\\)\.", path.removeprefix(".")):
        item = item.get(key.replace("\\", ""), {})
    if isinstance(item, list):
        return "[" + ",".join(f'"{each}"' for each in item) + "]"
    return "" if item == {} else str(item)


def test_cluster_up_says_what_the_walk_says() -> None:
    steps = re.findall(r"^    (.+)$", NEXT, re.MULTILINE)
    assert len(steps) == 3
    assert "make cluster-up\n" + "\n".join(steps) + "\n```\n" in INSTALL


def test_the_ray_cluster_of_the_walk_starts_as_it_is_shown(manifests: list[Any], tmp_path: Path) -> None:
    """Its three pods are bound; with the label misspelt, the reason is the one in the event."""
    queues = [each for each in manifests if each["kind"] == "Queue"]
    (ray,) = [each for each in manifests_of(WORKLOADS) if each["kind"] == "RayCluster"]
    (state,) = cycle_of(tmp_path, [*queues, ray])[1].groups.values()
    assert (state.counts, state.min_member) == ({"Binding": 3}, 3)
    ray["metadata"]["labels"] = {"kai.scheduler/queue": "visoin"}
    (state,) = cycle_of(tmp_path, [*queues, ray])[1].groups.values()
    assert state.reason is not None
    assert f"names queue 'visoin': {state.reason.message}; the PodGroup is default/pg-tune-" in WORKLOADS


def test_the_priorities_of_kinds_are_told() -> None:
    """Each class with the kinds that have it by default, as the rules of grouping have it."""
    rows = dict(re.findall(r"^\| `([a-z-]+)` (?:\d+) \| (.+?) \|", WORKLOADS, re.MULTILINE))
    assert set(rows) == {TRAIN, BUILD, INFERENCE}
    assert "Deployment" in rows[INFERENCE]
    assert "Notebook" in rows[BUILD]
    assert "StatefulSet" in rows[TRAIN]
    named = set(re.findall(r"\b[A-Z]\w*(?:Set|Job)\b", rows[TRAIN]))
    assert named - {kind for _, kind in RULES} == set()


def test_figures_on_the_front_page_are_those_of_the_comparison() -> None:
    """A row of README.md with a time has the time of v0.17.0 and of the whole cycle in docs/why.md."""
    claims = re.findall(r"^\| ([^|]+) \| ([\d. to]+ m?s) \| ([\d.]+ ms) \|$", README, re.MULTILINE)
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", WHY, re.MULTILINE)
    assert len(claims) == 3
    assert set(claims) - set(rows) == set()
