"""Objects that make a cycle raise are found, left out and tried again; all others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kai_sched import Config, Store, run_cycle
from kai_sched.cycle import lift
from kai_sched.cycle.quarantine import RETRY_S, Outcome, Quarantine
from kai_sched.lowering.errors import LoweringError
from kai_sched.model import objects as o
from kai_sched.model.store import Change, Cluster

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
GPU = o.Shape((("gpu", 1.0), ("pods", 1.0)))
BAD_LABELS: Any = None  # what no reader makes: it raises wherever it is looked at
NOW_NS = 1_800_000_000 * 10**9


class Fragile:
    """Cycles that raise while ``breaks`` holds, told of each view; with a store, a timer, and all that is counted."""

    def __init__(self, n_pods: int = 0, gpus: float = 8.0) -> None:
        self.store = Store()
        self.breaks: Callable[[Cluster], bool] = lambda _: False
        self.error: type[Exception] = ZeroDivisionError
        self.time = 1000.0
        self.runs = 0
        self.quarantine = Quarantine(self._run)
        self.store.put(o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
        self.store.put(o.Node("n", allocatable={"gpu": gpus, "pods": 1000.0}))
        for n in range(n_pods):
            self.put_pod(f"p{n}")

    def put_pod(self, name: str, **fields: Any) -> o.Pod:
        fields = {"shape": GPU, "queue": "q", "scheduler": "kai-scheduler", "uid": name} | fields
        pod = o.Pod(fields.pop("namespace", "ml"), name, **fields)
        self.store.put(pod)
        return pod

    def _run(self, view: Cluster, *arguments: Any) -> Any:
        self.runs += 1
        result = run_cycle(view, *arguments)
        if self.breaks(view):
            raise self.error("by the test")
        return result

    def run(self, read_all: bool = False) -> Outcome:
        self.runs = 0
        return self.quarantine.run_cycle(self.store.cluster(), Config(), NOW_NS, lambda: self.time, read_all=read_all)

    def left_out(self) -> set[Change]:
        return set(self.run().result.left_out)


def broken_by(*names: Change) -> Callable[[Cluster], bool]:
    return lambda view: any(key in view.table(kind) for kind, key in names)


def test_without_faults_nothing_is_different() -> None:
    fragile = Fragile(n_pods=3)
    outcome = fragile.run()
    assert (outcome.quarantined, outcome.released, outcome.transient, outcome.retry_at, fragile.runs) == (
        (),
        (),
        None,
        None,
        1,
    )
    assert outcome.result.effects == run_cycle(fragile.store.cluster(), Config(), NOW_NS).effects


def test_one_pod_of_many_is_found_and_all_others_are_placed() -> None:
    fragile = Fragile(n_pods=500, gpus=1000.0)
    fragile.breaks = broken_by((o.Pod, "ml/p321"))
    outcome = fragile.run()
    assert set(outcome.result.left_out) == {(o.Pod, "ml/p321")}
    assert [entry.name for entry in outcome.quarantined] == [(o.Pod, "ml/p321")]
    assert len(outcome.result.effects) == 499
    assert fragile.runs <= 20
    assert fragile.run().quarantined == ()
    assert fragile.runs == 1, "once found, cycles cost what they always do"


def test_what_changed_is_looked_at_first() -> None:
    fragile = Fragile(n_pods=500, gpus=1000.0)
    fragile.run()
    fragile.put_pod("late")
    fragile.breaks = broken_by((o.Pod, "ml/late"))
    assert set(fragile.run().result.left_out) == {(o.Pod, "ml/late")}
    assert fragile.runs <= 5


def test_several_are_found() -> None:
    fragile = Fragile(n_pods=100, gpus=1000.0)
    names: list[Change] = [(o.Pod, f"ml/p{n}") for n in (0, 17, 18, 63, 99)]
    fragile.breaks = broken_by(*names)
    assert fragile.left_out() == set(names)


def test_of_two_that_fail_together_one_has_to_go() -> None:
    fragile = Fragile(n_pods=50, gpus=1000.0)
    fragile.breaks = lambda view: {"ml/p7", "ml/p40"} <= view.pods.keys()
    assert len(fragile.left_out()) == 1


def bad_pod() -> o.Pod:
    return o.Pod("ml", "bad", GPU, "bad", labels=BAD_LABELS, queue="q", scheduler="kai-scheduler")


@pytest.mark.parametrize(
    "item",
    [
        bad_pod(),
        o.PodGroup("ml", "bad", labels=BAD_LABELS),
        o.Node("bad", labels=BAD_LABELS),
        replace(bad_pod(), labels={}, phase=BAD_LABELS),
        replace(bad_pod(), labels={}, shape=BAD_LABELS),
    ],
)
def test_what_lowering_raises_names_the_object(item: o.Object) -> None:
    """Of whatever size the cluster is: no search."""
    fragile = Fragile(n_pods=300, gpus=1000.0)
    fragile.store.put(item)
    with pytest.raises(LoweringError, match="bad"):
        run_cycle(fragile.store.cluster(), Config(), NOW_NS)
    outcome = fragile.run()
    assert set(outcome.result.left_out) == {(type(item), item.key)}
    assert len(outcome.result.effects) == 300
    assert fragile.runs == 3, "the failure, the same once more, and without the object"


def test_a_hundred_that_lowering_names_are_left_out_at_once() -> None:
    fragile = Fragile(n_pods=10, gpus=1000.0)
    for n in range(100):
        fragile.store.put(replace(bad_pod(), name=f"bad{n}"))
    assert len(fragile.run().result.left_out) == 100
    assert fragile.runs == 3


HELD = {"node": "n", "phase": o.Phase.RUNNING}


@pytest.mark.parametrize("shape", [GPU, replace(GPU, host_ports=BAD_LABELS)])
@pytest.mark.parametrize("uid", ["bad", BAD_LABELS])
def test_the_room_of_a_pod_that_is_left_out_is_not_given_away(shape: o.Shape, uid: str) -> None:
    """Nor does its node get anything else; its gang is not taken for stale, as nobody knows that it is."""
    fragile = Fragile(gpus=8.0)
    gang = o.PodGroup("ml", "g", queue="q", min_member=2, stale_since_ns=1, staleness_grace_s=0.0)
    fragile.store.put(gang)
    fragile.put_pod("mate", group="g", **HELD)
    fragile.put_pod("bad", group="g", shape=shape, uid=uid, **HELD)
    fragile.put_pod("new")
    fragile.breaks = lambda view: (
        "ml/bad" in view.pods and (view.pods["ml/bad"].shape is shape or view.pods["ml/bad"].uid is BAD_LABELS)
    )
    result = fragile.run().result
    assert set(result.left_out) == {(o.Pod, "ml/bad")}
    assert (result.effects, result.pods["ml/new"].status) == ((), "Pending")
    fragile.store.put(o.Node("other", allocatable={"gpu": 1.0, "pods": 10.0}))
    effects = fragile.run().result.effects
    assert [(effect.pod, getattr(effect, "node", "")) for effect in effects] == [("ml/new", "other")]


def test_what_a_pod_that_is_left_out_holds_counts_for_its_queue() -> None:
    limited = o.Share(1.0, 1.0, 1.0)
    fragile = Fragile()
    fragile.store.put(o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=limited))
    fragile.store.put(o.Node("other", allocatable={"gpu": 8.0, "pods": 10.0}))
    bad = fragile.put_pod("bad", labels={"x": "y"}, **HELD)
    fragile.put_pod("new")
    fragile.breaks = lambda view: view.pods.get("ml/bad") == bad
    assert fragile.run().result.effects == ()
    assert fragile.run().result.effects == ()


def test_the_pods_of_a_group_that_is_left_out_wait_and_say_so() -> None:
    fragile = Fragile(gpus=2.0)
    fragile.store.put(o.PodGroup("ml", "bad", queue="q"))
    fragile.put_pod("runs", group="bad", **HELD)
    fragile.put_pod("waits", group="bad")
    fragile.put_pod("a", created_ns=1)
    fragile.put_pod("b", created_ns=2)
    fragile.breaks = broken_by((o.PodGroup, "ml/bad"))
    result = fragile.run().result
    assert [effect.pod for effect in result.effects] == ["ml/a"], "its running pod keeps its room"
    state = result.groups["ml/bad"]
    assert (state.counts, state.reason.code if state.reason else "") == ({"Pending": 1, "Running": 1}, "SchedulerError")


def test_pods_that_are_left_out_say_so() -> None:
    fragile = Fragile(n_pods=1)
    fragile.store.put(o.PodGroup("ml", "g", queue="q", min_member=2))
    fragile.put_pod("mate", group="g")
    fragile.put_pod("bad", group="g")
    fragile.put_pod("alone")
    fragile.breaks = broken_by((o.Pod, "ml/bad"), (o.Pod, "ml/alone"))
    groups = fragile.run().result.groups
    for key in ("ml/g", "ml/alone"):
        reason = groups[key].reason
        assert reason is not None
        assert reason.code == "SchedulerError"
        assert "by the test" in reason.message
    assert groups["ml/g"].counts == {"Pending": 2}
    assert groups["ml/p0"].reason is None


def test_the_groups_of_a_queue_that_is_left_out_say_so() -> None:
    fragile = Fragile(n_pods=1)
    fragile.store.put(o.Queue("bad", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED))
    fragile.put_pod("waits", queue="bad")
    fragile.breaks = broken_by((o.Queue, "bad"))
    reason = fragile.run().result.groups["ml/waits"].reason
    assert reason is not None
    assert reason.code == "SchedulerError"


def test_a_node_that_is_left_out_gets_nothing() -> None:
    fragile = Fragile(n_pods=1)
    fragile.breaks = broken_by((o.Node, "n"))
    result = fragile.run().result
    assert set(result.left_out) == {(o.Node, "n")}
    assert result.effects == ()


def test_a_placement_of_the_originals_that_is_left_out_is_not_made_anew() -> None:
    fragile = Fragile(gpus=1.0)
    fragile.put_pod("bound")
    fragile.put_pod("new")
    fragile.store.put(o.BindRequest("ml", "r", "bound", "n"))
    fragile.breaks = broken_by((o.BindRequest, "ml/r"))
    result = fragile.run().result
    assert set(result.left_out) == {(o.BindRequest, "ml/r")}
    assert result.effects == ()


def test_an_object_comes_back_when_it_changes() -> None:
    fragile = Fragile()
    fragile.store.put(bad_pod())
    outcome = fragile.run()
    assert outcome.retry_at == fragile.time + RETRY_S
    fragile.put_pod("bad")
    outcome = fragile.run()
    assert (outcome.released, outcome.result.left_out, outcome.retry_at) == (((o.Pod, "ml/bad"),), {}, None)
    assert [effect.pod for effect in outcome.result.effects] == ["ml/bad"]


def test_a_bind_request_that_was_suspected_for_its_pod_comes_back_when_the_pod_changes() -> None:
    """Where only the request is new it is found first, and it may be the pod that was wrong."""
    fragile = Fragile()
    wrong = fragile.put_pod("p")
    fragile.run()
    fragile.store.put(o.BindRequest("ml", "p", "p", "n"))
    fragile.breaks = lambda view: view.pods.get("ml/p") is wrong and "ml/p" in view.bind_requests
    assert fragile.left_out() == {(o.BindRequest, "ml/p")}
    fragile.put_pod("p", labels={"now": "right"})
    assert fragile.left_out() == set()


def test_a_pod_stays_out_when_the_bind_request_that_was_suspected_for_it_is_gone() -> None:
    """What comes back beside it is not blamed for it."""
    fragile = Fragile()
    wrong = {name: fragile.put_pod(name) for name in ("a", "b")}
    fragile.run()
    for name in wrong:
        fragile.store.put(o.BindRequest("ml", name, name, "n"))
    fragile.breaks = lambda view: any(view.pods.get(pod.key) is pod for pod in wrong.values())
    assert fragile.left_out() == {(o.BindRequest, "ml/a"), (o.BindRequest, "ml/b")}
    fragile.put_pod("a", labels={"now": "right"})
    fragile.store.remove(o.BindRequest, "ml/b")
    assert fragile.left_out() == {(o.Pod, "ml/b")}


def test_an_object_that_is_gone_is_forgotten() -> None:
    fragile = Fragile()
    fragile.store.put(bad_pod())
    fragile.run()
    fragile.store.remove(o.Pod, "ml/bad")
    outcome = fragile.run()
    assert (outcome.released, outcome.result.left_out) == (((o.Pod, "ml/bad"),), {})
    assert outcome.result.groups.keys() == set()


def test_an_object_is_tried_again_in_time() -> None:
    """Something else may have been at fault, or the process may have got better."""
    fragile = Fragile(n_pods=200, gpus=1000.0)
    fragile.breaks = broken_by((o.Pod, "ml/p5"))
    assert fragile.left_out() == {(o.Pod, "ml/p5")}
    fragile.time += RETRY_S - 1.0
    assert fragile.left_out() == {(o.Pod, "ml/p5")}
    fragile.time += 2.0
    outcome = fragile.run()
    assert [entry.name for entry in outcome.quarantined] == [(o.Pod, "ml/p5")]
    assert fragile.runs <= 6, "it is the first that is suspected"
    fragile.breaks = lambda _: False
    fragile.time += RETRY_S + 1.0
    assert fragile.run().released == ((o.Pod, "ml/p5"),)


def test_one_that_changes_and_fails_each_second_is_not_tried_each_second() -> None:
    fragile = Fragile(n_pods=20)
    quarantined = 0
    for second in range(60):
        fragile.store.put(replace(bad_pod(), created_ns=second))
        quarantined += bool(fragile.run().quarantined)
        assert "ml/p0" in fragile.run().result.pods
        fragile.time += 1.0
    assert 2 <= quarantined <= 6
    fragile.put_pod("bad")
    fragile.time += RETRY_S
    assert fragile.left_out() == set()


def test_what_no_object_is_to_blame_for_is_raised() -> None:
    fragile = Fragile(n_pods=10)
    fragile.breaks = lambda _: True
    with pytest.raises(ZeroDivisionError):
        fragile.run()
    assert fragile.runs <= 6
    with pytest.raises(ZeroDivisionError):
        fragile.run()
    assert fragile.runs == 2, "not searched for again at once"
    fragile.breaks = lambda _: False
    assert len(fragile.run().result.effects) == 8


def test_a_search_stops_when_the_process_does() -> None:
    fragile = Fragile(n_pods=100)
    fragile.breaks = broken_by((o.Pod, "ml/p5"))
    fragile.quarantine.stop()
    with pytest.raises(ZeroDivisionError):
        fragile.run()
    assert fragile.runs == 2


def test_what_does_not_come_again_is_no_objects_fault() -> None:
    fragile = Fragile(n_pods=3)
    failures = iter([True])
    fragile.breaks = lambda _: next(failures, False)
    outcome = fragile.run()
    assert isinstance(outcome.transient, ZeroDivisionError)
    assert (outcome.result.left_out, len(outcome.result.effects), fragile.runs) == ({}, 3, 2)


def test_what_raises_when_it_is_read_is_found_where_it_will_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    original = lift.explain_group

    def explain(j: int, lowered: Any, *rest: Any) -> Any:
        if lowered.groups[j].name == "bad":
            raise ZeroDivisionError("by the test")
        return original(j, lowered, *rest)

    monkeypatch.setattr(lift, "explain_group", explain)
    fragile = Fragile(n_pods=20, gpus=1.0)
    fragile.store.put(o.PodGroup("ml", "bad", queue="q", min_member=2))
    fragile.put_pod("waits", group="bad")
    assert fragile.run().quarantined == ()
    outcome = fragile.run(read_all=True)
    assert len(outcome.result.left_out) == 1
    assert "ml/p3" in outcome.result.groups
