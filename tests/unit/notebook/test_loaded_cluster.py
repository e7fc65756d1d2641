"""Questions to a loaded cluster, and changed copies of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import yaml

import kai_sched
from kai_sched import Cluster, Config, LoadedCluster, run_cycle
from kai_sched.model.objects import UNLIMITED
from tests.tree import ROOT
from tests.unit.cli.command import run

TEAMS = ROOT / "examples" / "teams"
GI = 2**30


@pytest.fixture(scope="module")
def teams() -> LoadedCluster:
    return kai_sched.load(TEAMS)


def pod(name: str, gpus: int, queue: str = "team-a") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml-team-a", "labels": {"kai.scheduler/queue": queue}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        },
    }


def queue(name: str, **gpu: float) -> dict[str, Any]:
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": {**unlimited, **gpu}, "cpu": unlimited, "memory": unlimited}
    spec = {"parentQueue": "department-1", "resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_names_and_units(teams: LoadedCluster) -> None:
    found = teams.simulate()
    team = found.queues["team-a"]
    assert (team.quota.gpu, team.fair_share.gpu, team.allocated.gpu) == (16.0, 16.0, 9.0)
    assert team.allocated.cpu == 48.0
    assert team.allocated.memory == sum(state.memory for state in [team.allocated])
    assert team.quota.cpu == math.inf
    raw = {each.name: each for each in found.result.queues}["team-a"]
    assert (raw.allocated[0], raw.allocated[1]) == (team.allocated.cpu * 1000, team.allocated.memory)
    assert found.pods["ml-team-a/bert-finetuning-0"].node == "gpu-node-1"
    assert found.pods["ml-team-a/bert-finetuning-0"].gpus == 4.0
    assert found.nodes["gpu-node-1"].capacity.gpu == 8.0
    assert [each.name for each in found.waiting] == ["llama-pretraining"]
    assert {each.workload.name for each in found.placed} == {"bert-finetuning", "tokenize-corpus", "resnet-sweep"}
    assert [each.workload.name for each in found.running] == ["notebook"]
    assert len(found.evictions) == 0


def test_it_is_what_run_cycle_takes(teams: LoadedCluster) -> None:
    now_ns = int(teams.now.timestamp()) * 10**9
    direct = run_cycle(teams.cluster, teams.config, now_ns)
    assert direct.effects == teams.simulate().result.effects


def test_the_time(teams: LoadedCluster) -> None:
    at = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    assert teams.now == datetime(2026, 1, 1, 9, 30, tzinfo=UTC)
    same: list[Any] = ["2026-01-01T10:00:00Z", "2026-01-01T12:00:00+02:00", at.astimezone(timezone(timedelta(hours=2)))]
    expected = teams.simulate(at).to_dict()
    assert [teams.simulate(each).to_dict() == expected for each in same] == [True] * 3
    assert teams.simulate(at).waiting[0].waits_s == teams.simulate().waiting[0].waits_s + 1800
    assert teams.simulate(at).now == at
    assert teams.explain("llama-pretraining", now=at).waits_s == teams.simulate(at).waiting[0].waits_s


def test_cycles_follow_each_other(teams: LoadedCluster) -> None:
    found = teams.simulate(cycles=3)
    assert len(found.cycles) == 3
    assert [len(each.placed) for each in found.cycles] == [3, 0, 0]
    assert found.now - found.cycles[0].now == timedelta(seconds=2)
    assert found.to_dict()["cycles"][0] == teams.simulate().to_dict()["cycles"][0]


@pytest.mark.slow
def test_answers_are_those_of_the_command_line(teams: LoadedCluster) -> None:
    for arguments, found in (
        (["explain", "llama-pretraining", "examples/teams"], teams.explain("llama-pretraining")),
        (
            ["simulate", "examples/teams", "--set", "queue/team-a.gpu.quota=3"],
            teams.diff(teams.with_queue("team-a", gpu_quota=3)),
        ),
        (["simulate", "examples/teams", "--drain", "gpu-node-1"], teams.diff(teams.drain("gpu-node-1"))),
        (
            ["simulate", "examples/teams", "--add-nodes", "2:like=gpu-node-1"],
            teams.diff(teams.with_nodes(2, like="gpu-node-1")),
        ),
        (["simulate", "examples/teams", "--remove", "bert-finetuning"], teams.diff(teams.without("bert-finetuning"))),
    ):
        done = run(*arguments, "-o", "json")
        assert json.loads(done.stdout) == json.loads(json.dumps(found.to_dict())), arguments
    printed = run("explain", "llama-pretraining", "examples/teams")  # to a pipe, where lines are not folded
    assert printed.stdout.split() == str(teams.explain("llama-pretraining")).split()


def test_fit(teams: LoadedCluster) -> None:
    large, small = teams.fit([pod("small", 1), pod("large", 64)])
    assert [(each.workload.name, each.verdict) for each in (large, small)] == [("large", "waits"), ("small", "runs")]
    assert teams.fit(pod("small", 1))[0].nodes
    assert teams.fit(pod("large", 64))[0].reason is not None
    assert "small" not in str(teams.cluster.pods.keys())
    with pytest.raises(ValueError, match="no pod for kai-scheduler in objects: give files or objects with workloads"):
        teams.fit(queue("more"))
    with pytest.raises(kai_sched.InputError, match="already defined in"):
        teams.fit(list(yaml.safe_load_all((TEAMS / "team-a.yaml").read_text())))
    with pytest.raises(kai_sched.InputError, match="named twice"):
        teams.fit(TEAMS)


def test_fit_sees_the_changes(teams: LoadedCluster) -> None:
    whole = pod("whole", 8)
    assert [each.name for each in teams.fit(whole)[0].costs.late] == ["bert-finetuning"]
    assert teams.with_nodes(1, like="gpu-node-1").fit(whole)[0].costs.late == ()


def test_copies_are_changed_and_originals_are_not(teams: LoadedCluster) -> None:
    before = teams.simulate().to_dict()
    copies = [
        teams.with_queue("team-a", gpu_quota=1, gpu_limit=math.inf, gpu_weight=3),
        teams.with_nodes(1, like="gpu-node-1"),
        teams.drain("gpu-node-1"),
        teams.without("bert-finetuning"),
        teams.with_objects(pod("another", 1)),
    ]
    for copy in copies:
        assert teams.diff(copy).is_empty is False
        assert copy.diff(copy).is_empty
    assert teams.simulate().to_dict() == before
    assert teams.drain("gpu-node-1").uncordon("gpu-node-1").cluster.nodes["gpu-node-1"].takes_pods


def test_units_of_queues(teams: LoadedCluster) -> None:
    changed = teams.with_queue(
        "team-a", cpu_quota=1.5, cpu_limit="2500m", memory_quota="2Gi", memory_limit=5.0, cpu_weight=2, memory_weight=4
    )
    found = changed.cluster.queues["team-a"]
    assert (found.cpu.quota, found.cpu.limit, found.cpu.weight) == (1500.0, 2500.0, 2.0)
    assert (found.memory.quota, found.memory.limit, found.memory.weight) == (2 * GI, 5.0, 4.0)
    assert found.gpu == teams.cluster.queues["team-a"].gpu
    assert teams.with_queue("team-a", memory_quota=math.inf).cluster.queues["team-a"].memory.quota == UNLIMITED


def test_objects_take_the_place_of_others(teams: LoadedCluster) -> None:
    """Changes that were made before stay, but for what the objects say."""
    changed = teams.drain("gpu-node-1").with_queue("team-a", gpu_quota=3).with_queue("team-b", gpu_quota=5)
    found = changed.with_objects(queue("team-a", quota=11)).cluster
    assert (found.queues["team-a"].gpu.quota, found.queues["team-b"].gpu.quota) == (11.0, 5.0)
    assert not found.nodes["gpu-node-1"].takes_pods
    twice = teams.with_objects(queue("team-a", quota=11)).with_objects(queue("team-a", quota=12))
    assert twice.cluster.queues["team-a"].gpu.quota == 12.0


def test_a_file_may_be_read_again(teams: LoadedCluster, tmp_path: Any) -> None:
    path = tmp_path / "more.yaml"
    path.write_text(yaml.safe_dump(queue("more", quota=0, limit=1)))
    once = teams.with_objects(path)
    path.write_text(yaml.safe_dump(queue("more", quota=0, limit=2)))
    assert once.cluster.queues["more"].gpu.limit == 1.0
    assert once.with_objects(path).cluster.queues["more"].gpu.limit == 2.0
    path.unlink()
    assert once.with_objects(pod("late", 1)).cluster.queues["more"].gpu.limit == 1.0


def test_new_objects_are_warned_about(teams: LoadedCluster) -> None:
    with pytest.warns(kai_sched.InputWarning, match="taem-a") as told:
        found = teams.with_objects(pod("typo", 1, "taem-a"))
    assert [each.filename for each in told] == [__file__]
    assert len(found.problems) == len(teams.problems) + 1


Call = Callable[[LoadedCluster], Any]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.simulate(now=5), TypeError, "now is a datetime or a text .*fromtimestamp"),
        (lambda c: c.simulate(now=datetime(2026, 1, 1)), ValueError, "now has no time zone"),  # noqa: DTZ001
        (lambda c: c.simulate(now="noon"), ValueError, "'noon' is not a time; write it as 2026-01-31T12:00:00Z"),
        (lambda c: c.simulate(now=datetime(1, 1, 1, tzinfo=UTC)), ValueError, "out of range"),
        (lambda c: c.simulate(cycles=0), ValueError, "cycles is 0: give at least 1"),
        (lambda c: c.simulate(cycles=True), TypeError, "cycles is a whole number, not True"),
        (lambda c: c.simulate(cycles=1.5), TypeError, "cycles is a whole number"),
        (lambda c: c.explain("llama-pretrainign"), ValueError, "^there is no workload .* did you mean 'llama-pretrain"),
        (lambda c: c.explain(5), TypeError, "name is a text, not 5"),
        (lambda c: c.without("llama-pretrainign"), ValueError, "did you mean 'llama-pretraining'"),
        (lambda c: c.with_queue("team-c", gpu_quota=1), ValueError, "^there is no queue 'team-c': did you mean 'team-"),
        (lambda c: c.with_queue("team-a"), ValueError, "nothing to change about queue 'team-a': give at least one of"),
        (lambda c: c.with_queue(5, gpu_quota=1), TypeError, "name is a text"),
        (lambda c: c.with_queue("team-a", gpu_quota=-1), ValueError, "gpu_quota is -1: .*math.inf for unlimited"),
        (lambda c: c.with_queue("team-a", gpu_quota=math.nan), ValueError, "gpu_quota is nan"),
        (
            lambda c: c.with_queue("team-a", gpu_weight=math.inf),
            ValueError,
            "gpu_weight is inf: give a number from 0 on$",
        ),
        (lambda c: c.with_queue("team-a", gpu_quota="8"), TypeError, "gpu_quota is a number, not '8'"),
        (lambda c: c.with_queue("team-a", gpu_quota=True), TypeError, "gpu_quota is a number, not True"),
        (lambda c: c.with_queue("team-a", memory_quota="5Qi"), ValueError, "memory_quota: '5Qi' is not a quantity"),
        (lambda c: c.with_queue("team-a", cpu_quota=[]), TypeError, "cpu_quota is a number, or a quantity"),
        (lambda c: c.with_nodes(2, like="gpu-node"), ValueError, "^there is no node 'gpu-node': did you mean"),
        (lambda c: c.with_nodes(0, like="gpu-node-1"), ValueError, "count is 0"),
        (lambda c: c.with_nodes("2", like="gpu-node-1"), TypeError, "count is a whole number, not '2'"),
        (lambda c: c.with_nodes(10**6, like="gpu-node-1"), ValueError, "give 1 to 10,000"),
        (lambda c: c.drain("gpu-node"), ValueError, "^there is no node 'gpu-node': did you mean"),
        (lambda c: c.uncordon(None), TypeError, "node is a text"),
        (lambda c: c.diff({}), TypeError, "diff takes a loaded cluster, not dict"),
        (lambda c: c.fit("nowhere.yaml"), kai_sched.InputError, "nowhere.yaml: there is no such file"),
        (lambda c: c.with_objects(5), TypeError, "not int"),
        (lambda c: c.simulate().queues["team-c"], KeyError, "there is no queue 'team-c': did you mean 'team-"),
        (lambda c: c.simulate().nodes["gpu-node"], KeyError, "there is no node 'gpu-node': did you mean"),
        (
            lambda c: run_cycle(list(c.cluster.pods), c.config, 1),
            TypeError,
            "write Cluster.of\\(objects\\), or kai_sched",
        ),
        (lambda c: run_cycle(c.cluster, c.config, c.now), TypeError, "now_ns is a whole number of nanoseconds"),
        (lambda c: run_cycle(c.cluster, c.config, 1.5), TypeError, "now_ns is a whole number of nanoseconds"),
        (lambda _: Cluster.of([pod("x", 1)]), TypeError, "not of dict: kai_sched.load\\(objects\\).cluster"),
        (lambda _: Config(actions="allocate"), TypeError, "write \\('allocate',\\)"),
        (lambda _: Config(actions=("alocate",)), ValueError, "there is no action 'alocate': use some of"),
    ],
)
def test_wrong_types_and_values(teams: LoadedCluster, call: Call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(teams)
