"""What the soak asks for, and the lines of its table that fail it: rights, leftovers, memory, cycles."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster import claims
from tests.cluster.bench import Figure
from tests.cluster.client import Object
from tests.cluster.soak import audited
from tests.cluster.soak_cluster import leftovers
from tests.cluster.soak_growth import cycle_figures, cycles_of, is_quiet, memory_figures, same_work_ms
from tests.cluster.soak_judge import Judge
from tests.cluster.soak_replicas import container, memory_limit_mb
from tests.cluster.soak_workloads import DEMANDS, Workload


def test_what_was_asked_tells_of_second_bindings_and_of_missing_rights(tmp_path: Path) -> None:
    user = {"username": "system:serviceaccount:kai-scheduler:scheduler"}

    def entry(verb: str, code: int, second: int = 0, **target: str) -> str:
        content = {"user": user, "verb": verb, "objectRef": target, "responseStatus": {"code": code}}
        more = {"requestURI": "/there", "requestReceivedTimestamp": f"1970-01-01T00:01:{second:02}.5Z"}
        return json.dumps(content | more, separators=(",", ":")) + "\n"

    bind = entry("create", 201, subresource="binding", uid="u")
    path = tmp_path / "audit.log"
    path.write_text(bind + entry("create", 409, subresource="binding", uid="u") + entry("watch", 200))
    outages = [(62.0, 70.0)]
    with path.open("a") as file:
        file.write(entry("list", 403, second=19))  # it has just started
    faults, figures = audited(path, Judge({}, 10.0, 20.0), outages)
    assert faults == []
    assert figures[-1].verdict == "ok"
    with path.open("a") as file:
        file.write(bind + entry("list", 403, second=25) + '{"unfinished')
    faults, figures = audited(path, Judge({}, 10.0, 20.0), outages)
    assert faults == ["the pod of uid u was bound 2 times", "forbidden: list /there"]
    assert {figure.name: figure.value for figure in figures}["requests of all replicas"] == 5
    assert figures[-1].verdict == "MISSED"


def test_what_is_left_at_the_end_is_told() -> None:
    pods = [{"metadata": {"name": f"p-{number}"}} for number in range(6)]
    assert leftovers({"pods": [], "reservation pods": pods[:1], "claims": pods}) == [
        "1 reservation pods left at the end: p-0",
        "6 claims left at the end: p-0, p-1, p-2, p-3, p-4 ...",
    ]


def verdicts(figures: list[Figure]) -> list[str]:
    return [figure.verdict for figure in figures if figure.target is not None]


@pytest.mark.parametrize(("seconds", "grows"), [(120, False), (120, True), (1200, False), (1200, True)])
def test_memory_that_grows_is_found(seconds: int, grows: bool) -> None:
    samples = [(float(at_s), 200.0 + at_s * (0.6 if grows else 0.0)) for at_s in range(seconds)]
    assert verdicts(memory_figures(samples, seconds)) == ["MISSED" if grows else "ok"]


@pytest.mark.parametrize(
    ("more", "fuller", "slower", "found"),
    [
        (1.05, 1.0, 1.0, ["ok", "ok"]),
        (1.2, 1.0, 1.0, ["MISSED", "ok"]),
        (1.0, 1.2, 1.0, ["ok", "MISSED"]),
        (1.5, 1.0, 1.5, ["ok", "ok"]),
        (1.8, 1.0, 1.5, ["MISSED", "ok"]),
    ],
)
def test_cycles_that_use_more_cpu_at_the_same_load_are_found(
    more: float, fuller: float, slower: float, found: list[str]
) -> None:
    """In the last minute of 20, with one cycle that takes far longer; cycles that bound nothing do not count, and
    neither does a CPU that became slower."""

    def line(at_s: int, late: bool, bound: int) -> Object:
        cpu_ms = 10.0 * (more if late else 1.0) if bound else 1e6
        return {
            "timestamp": f"1970-01-01T00:{at_s // 60:02}:{at_s % 60:02}.000000Z",
            "ms": cpu_ms * (3.0 if late else 1.0),
            "cpu_ms": cpu_ms + 1000.0 * (at_s % 60 == 5),
            "pods": 400 * (fuller if late else 1.0),
            "bound": bound,
        }

    lines = [line(at_s, at_s > 1000, bound) for at_s in range(1200) for bound in (0, 3)]
    work = [(float(at_s), 5.0 * (slower if at_s > 1000 else 1.0)) for at_s in range(1200)]
    cycles = cycles_of(lines, started=0.0)
    assert len(cycles.cpu_ms) == 1200
    assert verdicts(cycle_figures(cycles, work, 1200.0)) == found
    assert verdicts(cycle_figures(cycles, work, 599.0)) == []


def test_work_that_is_always_the_same_takes_some_time() -> None:
    assert 0.1 < same_work_ms() < 1000.0


def test_nothing_fails_in_the_minutes_that_are_compared() -> None:
    assert [at_s for at_s in (200, 230, 290, 310, 1000, 1125, 1199) if is_quiet(at_s, 1200)] == [230, 290, 1125, 1199]
    assert not any(is_quiet(at_s, 180) for at_s in range(180))


def test_workloads_ask_for_everything_and_fit_together() -> None:
    """Each demand occurs as often as it says, and all pods of a gang with one claim may be on one node."""
    chance = random.Random(1)
    made = [Workload(number, chance) for number in range(2000)]
    kinds = Counter(workload.kind for workload in made)
    assert kinds.keys() == {"bare", "gang", "job", "never"}
    wanted = [one for workload in made for one in workload.wanted]
    pods = [pod for workload in made for pod in workload.pods]
    assert len(wanted) == len(pods)
    parts = sum(one.share > 0 for one in wanted) / len(wanted)
    asked = (DEMANDS["fraction"] + DEMANDS["memory"] + DEMANDS["two parts"]) / sum(DEMANDS.values())
    assert parts == pytest.approx(asked, rel=0.2)
    assert max(one.devices for one in wanted) == 2
    claimed = [pod["spec"]["resourceClaims"][0] for pod in pods if "resourceClaims" in pod["spec"]]
    assert {key for each in claimed for key in each} == {"name", "resourceClaimName", "resourceClaimTemplateName"}
    users = Counter(each.get("resourceClaimName") for each in claimed)
    shared = {name for name, count in users.items() if name and count > 1}
    assert shared
    apart = {each["metadata"]["name"].rpartition("-")[0] for each in pods if not_on_one_node(each)}
    assert not {name.removesuffix("-device") for name in shared} & apart
    assert any(claims.IMPLICIT in pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods)


def not_on_one_node(pod: Object) -> bool:
    labels = pod["metadata"]["labels"]
    return bool(labels["job-name"] != labels["pod"])


def test_the_replicas_run_what_the_deployment_says() -> None:
    found = container()
    assert found["args"][0] == "run"
    assert memory_limit_mb(found) > 1000
