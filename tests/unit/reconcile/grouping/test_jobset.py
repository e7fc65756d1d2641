"""JobSet: what its pods have in common is computed once for an answer about it, and is what each would get alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.reconcile.grouping import jobset
from kai_sched.reconcile.grouping.manifest import Grouping
from kai_sched.reconcile.grouping.owners import ObjectReference, Owner
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.unit.reconcile.workloads import QUEUE, Thing, World, grouping, owner, pod

NAMES = ("a", "b", "c")


class KeptWorld(World):
    """It gives the same answer again, as one that is cached."""

    def fetch(self, reference: ObjectReference) -> Owner | None:
        if not hasattr(self, "kept"):
            self.kept: dict[ObjectReference, Owner | None] = {}
        if reference not in self.kept:
            self.kept[reference] = super().fetch(reference)
        return self.kept[reference]


def job_set(*jobs: Thing, **more: Any) -> Thing:
    return owner("jobset.x-k8s.io/v1alpha2 JobSet", "js", labels=QUEUE, spec={"replicatedJobs": jobs}, **more)


def of_job(top: Thing, name: str, index: int) -> Thing:
    label = "jobset.sigs.k8s.io"
    return pod(f"{name}-{index}", top, labels={f"{label}/replicatedjob-name": name, f"{label}/job-index": str(index)})


def test_a_second_pod_costs_no_second_look_at_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    working = jobset.usable_name
    monkeypatch.setattr(jobset, "usable_name", lambda *rest: looked.append(rest[2]) or working(*rest))
    top = job_set(*({"name": name, "replicas": 50, "template": {"spec": {}}} for name in "ab"))
    world = KeptWorld((top,))
    first = grouping(of_job(top, "a", 0), world)
    assert len(looked) == 102
    second = grouping(of_job(top, "b", 1), world)
    assert len(looked) == 102
    assert (first.sub_group, second.sub_group) == ("a-replica-0", "b-replica-1")
    assert first.manifest == second.manifest


def told(the_pod: Thing, world: World) -> Grouping | str:
    try:
        return grouping(the_pod, world)
    except GroupingError as error:
        return str(error)


@st.composite
def replicated(draw: st.DrawFn, name: str) -> Thing:
    waits = draw(st.sampled_from([(), *NAMES]))
    spec = {"parallelism": draw(st.integers(0, 2)), "completions": draw(st.sampled_from([None, 1]))}
    return {
        "name": draw(st.sampled_from([name, name, name, "a", "Not a name"])),
        "replicas": draw(st.sampled_from([None, 0, 1, 3])),
        "template": {"spec": spec},
        "dependsOn": [{"name": waits, "status": "Ready"}] if waits else [],
    }


@given(
    st.tuples(*(replicated(name) for name in NAMES)),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 3)), min_size=2, max_size=8),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)),
)
def test_pods_are_told_what_each_would_be_told_alone(
    jobs: tuple[Thing, ...], pods: list[tuple[str, int]], done: dict[str, int]
) -> None:
    status = {"replicatedJobsStatus": [{"name": name, "succeeded": count} for name, count in done.items()]}
    top = job_set(*jobs, status=status)
    kept = KeptWorld((top,))
    for name, index in pods:
        the_pod = of_job(top, name, index)
        assert told(the_pod, kept) == told(the_pod, World((top,)))
