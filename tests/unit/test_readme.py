"""README.md shows what a user gets today: the walk through a cluster, computed here without one."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from kai_sched import Config, CycleResult, run_cycle
from kai_sched.files.load import load
from kai_sched.model.store import Cluster
from kai_sched.reconcile.grouping.draft import BUILD, INFERENCE, TRAIN
from kai_sched.reconcile.queue_status import queue_statuses
from kai_sched.reconcile.queue_usage import QueueUsage
from tests.cluster.play import NEXT
from tests.tree import ROOT

README = (ROOT / "README.md").read_text()
DEFAULT_QUEUES = ROOT / "kai_sched" / "operator" / "default_queues.yaml"
CRD = ROOT / "crds" / "queues.scheduling.run.ai.yaml"
NOW_NS = 1_800_000_000 * 10**9


@pytest.fixture(scope="module")
def manifests() -> list[Any]:
    """The queues of the walk, the pod ``hello`` as it runs, and ``greedy``, which asks for 6 GPUs."""
    found = [
        each for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL) for each in yaml.safe_load_all(block)
    ]
    (pod,) = [each for each in found if each["kind"] == "Pod"]
    hello, greedy = copy.deepcopy(pod), copy.deepcopy(pod)
    hello["metadata"] |= {"namespace": "default", "uid": "1"}
    hello["spec"]["nodeName"] = "gpu-node-1"
    hello["status"] = {"phase": "Running"}
    greedy["metadata"] |= {"namespace": "default", "uid": "2", "name": "greedy"}
    greedy["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 6
    queues = [each for each in found if each["kind"] == "Queue"]
    return [*queues, hello, greedy, *yaml.safe_load_all(DEFAULT_QUEUES.read_text())]


@pytest.fixture(scope="module")
def decided(manifests: list[Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Cluster, CycleResult]:
    path = tmp_path_factory.mktemp("walk") / "walk.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    (case,) = load([str(path), str(ROOT / "examples/teams/nodes.yaml")]).cases
    cluster = case.store.cluster()
    return cluster, run_cycle(cluster, Config(), NOW_NS)


def test_the_pending_pod_says_what_it_says(decided: tuple[Cluster, CycleResult]) -> None:
    reason = decided[1].groups["default/greedy"].reason
    assert reason is not None
    assert f"  Warning  Unschedulable  3s    kai-scheduler  {reason.message}\n" in README


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
    assert "$ kubectl get queues\n" + "\n".join(lines) + "\n$" in README


def shown(item: Any, path: str) -> str:
    """What is at a path of a printer column; nothing where nothing is there."""
    for key in re.split(r"(?<!\\)\.", path.removeprefix(".")):
        item = item.get(key.replace("\\", ""), {})
    if isinstance(item, list):
        return "[" + ",".join(f'"{each}"' for each in item) + "]"
    return "" if item == {} else str(item)


def test_cluster_up_says_what_the_walk_says() -> None:
    steps = re.findall(r"^    .+$", NEXT, re.MULTILINE)
    assert len(steps) == 3
    assert "    make cluster-up\n" + "\n".join(steps) + "\n\n" in README


def test_the_priorities_of_kinds_are_told() -> None:
    """Each class with the kinds that have it by default, as the rules of grouping have it."""
    rows = dict(re.findall(r"^\| `([a-z-]+)` (?:\d+) \| (.+?) \|", README, re.MULTILINE))
    assert set(rows) == {TRAIN, BUILD, INFERENCE}
    assert "Deployment" in rows[INFERENCE]
    assert "Notebook" in rows[BUILD]
    assert "StatefulSet" in rows[TRAIN]
