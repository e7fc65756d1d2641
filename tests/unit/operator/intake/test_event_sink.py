"""Lists and watches in any order leave the store as the API server is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kai_sched.model.inflight import Overlay
from kai_sched.model.objects import Node, Pod, Queue
from kai_sched.model.read.kinds import POD, POD_GROUP, QUEUE, SHARD, Kind
from kai_sched.model.store import Store
from kai_sched.operator.delivery.node_check import node_problem
from kai_sched.operator.intake.event_sink import UNREADABLE_POD
from tests.unit.operator.builders import Intake
from tests.unit.operator.worlds import NODE, raw, raw_group, raw_node, raw_pod, raw_queue


class Watched:
    """An event sink, and all that it reports."""

    def __init__(self) -> None:
        self.store = Store()
        self.changes: list[bool] = []
        self.seen: list[tuple[Kind, str, bool, str]] = []
        self.intake = Intake(self.store, changed=self.changes.append, observer=self._see)
        self.sink = self.intake.sink

    @property
    def nodes(self) -> dict[str, float]:
        return {node.name: node.allocatable["gpu"] for node in self.store.cluster().nodes.values()}

    def list(self, kind: Kind, *contents: bytes) -> None:
        self.sink.begin(kind)
        for content in contents:
            self.sink.item(kind, content)
        self.sink.finish(kind)

    def _see(self, kind: Kind, key: str, content: bytes | None, fault: str) -> None:
        self.seen.append((kind, key, content is not None, fault))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_what_a_list_does_not_name_is_gone(watched: Watched) -> None:
    watched.list(NODE, raw_node("a"), raw_node("b"))
    assert watched.sink.listed == {NODE}
    watched.list(NODE, raw_node("b"), raw_node("c"))
    assert watched.nodes.keys() == {"b", "c"}
    assert watched.sink.known(NODE) == {"b": 1, "c": 1}


def test_what_is_older_than_what_is_known_is_passed_over(watched: Watched) -> None:
    watched.sink.changed(NODE, raw_node("a", 5, gpus=5))
    for version in (4, 5):
        watched.sink.changed(NODE, raw_node("a", version, gpus=1))
    watched.sink.deleted(NODE, raw_node("a", 4))
    watched.list(NODE, raw_node("a", 3, gpus=1))
    assert watched.nodes == {"a": 5.0}
    watched.sink.changed(NODE, raw_node("a", 10, gpus=6))
    assert watched.nodes == {"a": 6.0}


def test_what_changes_while_it_is_listed_stays_so(watched: Watched) -> None:
    watched.list(NODE, raw_node("gone"), raw_node("kept"))
    watched.sink.begin(NODE)
    watched.sink.changed(NODE, raw_node("new", 7))
    watched.sink.changed(NODE, raw_node("kept", 8, gpus=2))
    watched.sink.deleted(NODE, raw_node("gone", 9))
    watched.sink.item(NODE, raw_node("gone", 1))  # the page was made before
    watched.sink.item(NODE, raw_node("kept", 1))
    watched.sink.finish(NODE)
    assert watched.nodes == {"new": 8.0, "kept": 2.0}


def test_what_came_again_while_it_is_listed_is_there(watched: Watched) -> None:
    watched.sink.begin(NODE)
    watched.sink.deleted(NODE, raw_node("a", 4))
    watched.sink.item(NODE, raw_node("a", 6, gpus=3))
    watched.sink.finish(NODE)
    assert watched.nodes == {"a": 3.0}


def test_a_late_event_does_not_restore_a_deleted_object(watched: Watched) -> None:
    watched.list(QUEUE, raw_queue("a", 3), raw_queue("b", 4))
    watched.sink.deleted(QUEUE, raw_queue("a", 5))
    for version in (3, 5):
        watched.sink.changed_late(QUEUE, raw_queue("a", version))
    assert watched.sink.known(QUEUE) == {"b": 4}
    watched.sink.changed_late(QUEUE, raw_queue("a", 6))
    assert watched.sink.known(QUEUE) == {"a": 6, "b": 4}, "it was made anew"


def test_an_answer_that_another_one_overtook_counts(watched: Watched) -> None:
    """Two objects are written at the same time, and the watch tells of neither yet."""
    watched.list(QUEUE, raw_queue("old", 3))
    watched.sink.changed_late(QUEUE, raw_queue("b", 6))
    watched.sink.changed_late(QUEUE, raw_queue("a", 5))
    assert watched.sink.known(QUEUE) == {"a": 5, "b": 6, "old": 3}


def test_what_is_heard_late_while_it_is_listed_keeps_nothing(watched: Watched) -> None:
    watched.list(QUEUE, raw_queue("a", 3), raw_queue("b", 4))
    watched.sink.begin(QUEUE)
    watched.sink.changed_late(QUEUE, raw_queue("a", 3))
    watched.sink.changed_late(QUEUE, raw_queue("new", 9))
    watched.sink.item(QUEUE, raw_queue("b", 4))
    watched.sink.finish(QUEUE)
    assert watched.sink.known(QUEUE) == {"b": 4, "new": 9}


@given(st.data())
def test_whatever_is_heard_late_and_in_any_order_the_reflector_has_the_last_word(data: st.DataObject) -> None:
    """Kopf tells each event again, or not at all, at any time and in any order; its last words may be lost."""
    history: list[tuple[str, str, int]] = []
    alive: set[str] = set()
    for version in range(1, data.draw(st.integers(2, 12)) + 1):
        name = data.draw(st.sampled_from("ab"))
        gone = name in alive and data.draw(st.booleans())
        history.append(("DELETED" if gone else "MODIFIED", name, version))
        (alive.discard if gone else alive.add)(name)
    watched = Watched()
    watched.list(QUEUE)
    heard = data.draw(st.lists(st.sampled_from(history), max_size=20))
    places = sorted(data.draw(st.lists(st.integers(0, len(history)), min_size=len(heard), max_size=len(heard))))
    for i, (type_, name, version) in enumerate(history):
        for (_, other, late), place in zip(heard, places, strict=True):
            if place == i + 1 and late <= version:
                watched.sink.changed_late(QUEUE, raw_queue(other, late))
        (watched.sink.deleted if type_ == "DELETED" else watched.sink.changed)(QUEUE, raw_queue(name, version))
    for _, other, late in heard:
        watched.sink.changed_late(QUEUE, raw_queue(other, late))
    assert watched.sink.known(QUEUE).keys() == alive


def test_a_list_that_broke_off_takes_nothing_away(watched: Watched) -> None:
    watched.list(NODE, raw_node("a"), raw_node("b"))
    watched.sink.begin(NODE)
    watched.sink.item(NODE, raw_node("b"))
    assert watched.nodes.keys() == {"a", "b"}
    watched.list(NODE, raw_node("a"), raw_node("b"))
    assert watched.nodes.keys() == {"a", "b"}


def test_an_unusable_object_is_told_once_and_left_out(watched: Watched) -> None:
    broken = json.loads(raw_queue("broken"))
    broken["spec"]["resources"]["gpu"]["quota"] = "many"
    watched.list(QUEUE, raw_queue("good"), json.dumps(broken).encode())
    assert [queue.name for queue in watched.store.cluster().queues.values()] == ["good"]
    fault = watched.sink.broken[QUEUE, "broken"]
    assert "quota" in fault
    assert watched.seen[-1] == (QUEUE, "broken", True, fault)
    broken["metadata"]["resourceVersion"] = "2"
    with capture_logs() as logs:
        watched.sink.changed(QUEUE, json.dumps(broken).encode())
    assert logs == []
    watched.sink.changed(QUEUE, raw_queue("broken", 3))
    assert isinstance(watched.store.get(Queue, "broken"), Queue)
    assert watched.sink.broken == {}


def test_a_queue_that_becomes_unusable_counts_no_more(watched: Watched) -> None:
    watched.sink.changed(QUEUE, raw_queue("q"))
    broken = json.loads(raw_queue("q", 2))
    broken["spec"]["resources"]["gpu"]["quota"] = "many"
    watched.sink.changed(QUEUE, json.dumps(broken).encode())
    assert watched.store.get(Queue, "q") is None
    watched.sink.deleted(QUEUE, raw_queue("q", 3))
    assert watched.sink.broken == {}


def test_kinds_that_the_store_does_not_keep_are_shown_to_the_observer(watched: Watched) -> None:
    watched.sink.changed(SHARD, raw("default", 1, spec={}))
    watched.sink.deleted(SHARD, raw("default", 2))
    assert watched.seen == [(SHARD, "default", True, ""), (SHARD, "default", False, "")]
    assert watched.changes == [True, True]


def test_a_pod_that_begins_to_run_matters_to_nobody(watched: Watched) -> None:
    def pod(version: int, phase: str, node: str = "n1") -> bytes:
        return json.dumps(json.loads(raw_pod("a", version, node=node)) | {"status": {"phase": phase}}).encode()

    for version, phase in enumerate(("Pending", "Running", "Running", "Failed"), 1):
        watched.sink.changed(POD, pod(version, phase))
    assert watched.changes == [True, False, True]


def test_a_deleted_pod_takes_its_assumed_bind_along(watched: Watched) -> None:
    watched.sink.changed(POD, raw_pod("a", uid="u1"))
    overlay: Overlay = watched.intake.overlay
    assert overlay.assume("ml/a", "u1", "n1")
    watched.sink.deleted(POD, raw_pod("a", 2, uid="u1"))
    assert watched.store.get(Pod, "ml/a") is None
    watched.sink.changed(POD, raw_pod("a", 3, uid="u2"))
    pod = watched.store.get(Pod, "ml/a")
    assert isinstance(pod, Pod)
    assert (pod.uid, pod.node) == ("u2", "")


def test_a_node_is_read_in_units_of_the_scheduler(watched: Watched) -> None:
    watched.sink.changed(NODE, raw_node("a", unschedulable=True))
    node = watched.store.get(Node, "a")
    assert isinstance(node, Node)
    assert node.unschedulable


def test_a_pod_of_another_scheduler_is_a_member_but_not_ours_to_place(watched: Watched) -> None:
    watched.sink.changed(POD, raw_pod("theirs", scheduler="default-scheduler"))
    waiting = watched.store.get(Pod, "ml/theirs")
    assert isinstance(waiting, Pod)
    assert waiting.gates != ()
    watched.sink.changed(POD, raw_pod("theirs", 2, scheduler="default-scheduler", node="a"))
    bound = watched.store.get(Pod, "ml/theirs")
    assert isinstance(bound, Pod)
    assert (bound.node, bound.gates) == ("a", ())


def test_an_observer_that_raises_changes_nothing(watched: Watched) -> None:
    def raising(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    sink = Intake(watched.store, changed=watched.changes.append, observer=raising).sink
    sink.changed(NODE, raw_node("a"))
    sink.changed(QUEUE, raw_queue("q"))
    assert watched.nodes == {"a": 8.0}
    sink.deleted(NODE, raw_node("a", 2))
    assert watched.nodes == {}


BROKEN: list[dict[str, object]] = [
    {"spec": {"nodeName": "a", "containers": 5}},
    {"spec": {"nodeName": "a", "containers": []}, "metadata": {"labels": {"x": 1}}},
    {"spec": {"nodeName": "a", "containers": []}, "metadata": {"creationTimestamp": "never"}},
    {"spec": {"nodeName": "a"}, "status": 3},
]


def broken_pod(content: dict[str, object], version: int) -> bytes:
    head = {"name": "bad", "namespace": "ml", "uid": "bad", "resourceVersion": str(version)}
    extra = content.get("metadata")
    return json.dumps({**content, "metadata": head | (extra if isinstance(extra, dict) else {})}).encode()


def takes_pods(watched: Watched, name: str = "a") -> bool:
    return node_problem(watched.store, name) == ""


@pytest.mark.parametrize("content", BROKEN, ids=str)
@pytest.mark.parametrize("was_there", [False, True])
def test_a_pod_that_cannot_be_read_keeps_its_node_from_others(
    watched: Watched, content: dict[str, object], was_there: bool
) -> None:
    """Until it can be read, has ended, or is gone."""
    watched.list(NODE, raw_node("a"), raw_node("b"))
    if was_there:
        watched.sink.changed(POD, raw_pod("bad", 1, node="a"))
    watched.sink.changed(POD, broken_pod(content, 2))
    assert watched.store.get(Pod, "ml/bad") is None
    assert (takes_pods(watched, "a"), takes_pods(watched, "b")) == (False, True)
    assert (POD, "ml/bad") in watched.sink.broken
    watched.sink.changed(NODE, raw_node("a", 2, gpus=4))
    assert not takes_pods(watched), "nor when the node is shown anew"
    for good in (raw_pod("bad", 3, node="a"), broken_pod({**content, "status": {"phase": "Failed"}}, 4)):
        watched.sink.changed(POD, good)
        assert takes_pods(watched)
        watched.sink.changed(POD, broken_pod(content, 10))
        watched.sink.deleted(POD, broken_pod(content, 11))
        assert takes_pods(watched)
    watched.sink.changed(POD, broken_pod(content, 12))
    watched.list(POD)
    assert takes_pods(watched)
    assert watched.sink.broken == {}


def test_a_pod_that_becomes_unreadable_holds_where_it_was_or_is_to_be(watched: Watched) -> None:
    """Even where it does not say any more where it is."""
    watched.list(NODE, raw_node("a"), raw_node("b"))
    watched.sink.changed(POD, raw_pod("bad", 1, uid="bad"))
    assert watched.intake.overlay.assume("ml/bad", "bad", "b")
    watched.sink.changed(POD, broken_pod({"spec": 5}, 2))
    assert (takes_pods(watched, "a"), takes_pods(watched, "b")) == (True, False)
    watched.sink.changed(POD, broken_pod({"spec": {"nodeName": "a", "containers": 5}}, 3))
    assert (takes_pods(watched, "a"), takes_pods(watched, "b")) == (False, True)


def test_a_node_that_comes_after_its_unreadable_pod(watched: Watched) -> None:
    watched.sink.changed(POD, broken_pod(BROKEN[0], 1))
    watched.sink.changed(NODE, raw_node("a"))
    node = watched.store.get(Node, "a")
    assert isinstance(node, Node)
    assert node.bad_conditions == (UNREADABLE_POD,)


@pytest.mark.parametrize("part", ["read_pod", "take", "observe", "put"])
def test_an_exception_costs_one_object(watched: Watched, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Whatever raises, wherever: the object is told and left out, all others go on, and it comes back."""
    sink = watched.sink
    owner = {
        "read_pod": sink._reader,
        "take": watched.intake.groups,
        "observe": watched.intake.overlay,
        "put": watched.store,
    }[part]
    working = getattr(owner, part)

    def raising(*args: object) -> object:
        if any("name='bad'" in str(each) for each in args):
            raise OverflowError("by the test")
        return working(*args)

    watched.list(NODE, raw_node("a"), raw_node("b"))
    monkeypatch.setattr(owner, part, raising)
    watched.list(POD, raw_pod("bad", 1, node="a"), raw_pod("good", 1, node="b"))
    assert watched.store.cluster().pods.keys() == {"ml/good"}
    assert "unexpected OverflowError: by the test" in sink.broken[POD, "ml/bad"]
    assert (takes_pods(watched, "a"), takes_pods(watched, "b")) == (False, True)
    assert POD in sink.listed
    monkeypatch.undo()
    sink.changed(POD, raw_pod("bad", 2, node="a"))
    assert watched.store.cluster().pods.keys() == {"ml/good", "ml/bad"}
    assert (takes_pods(watched, "a"), sink.broken) == (True, {})


NOTHING = [b"", b"{", b"[]", b"5", b"{}", b'{"metadata":5}', b'{"metadata":{"name":7}}', b"\xff", b"[" * 5000]


@pytest.mark.parametrize("content", NOTHING, ids=lambda each: repr(each[:20]))
@pytest.mark.parametrize("kind", [POD, NODE, QUEUE, SHARD])
def test_what_has_no_name_is_passed_over(watched: Watched, kind: Kind, content: bytes) -> None:
    watched.sink.begin(kind)
    for tell in (watched.sink.item, watched.sink.changed, watched.sink.deleted):
        tell(kind, content)
    watched.sink.finish(kind)
    assert watched.sink.known(kind) == {}


@pytest.mark.parametrize("version", ["", "x", "-5", "1" * 5000, "²"])
def test_a_version_that_is_no_number_is_the_oldest(watched: Watched, version: str) -> None:
    watched.sink.changed(NODE, raw("a", 0, metadata={"resourceVersion": version}, status={"allocatable": {}}))
    assert watched.sink.known(NODE) == {"a": 0}
    watched.sink.changed(NODE, raw_node("a"))
    assert watched.nodes == {"a": 8.0}


def test_an_object_that_raised_is_tried_again_when_it_is_listed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    monkeypatch.setattr(watched.store, "put", raising)
    watched.list(NODE, raw_node("a"))
    assert watched.nodes == {}
    monkeypatch.undo()
    watched.list(NODE, raw_node("a"))
    assert (watched.nodes, watched.sink.broken) == ({"a": 8.0}, {})


def test_a_pod_group_that_raises_stays_as_it_was(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.sink.changed(POD_GROUP, raw_group("g", 2))

    def raising(*_: object) -> None:
        raise ZeroDivisionError("by the test")

    monkeypatch.setattr(watched.intake.groups, "show", raising)
    changed = json.loads(raw_group("g", 3))
    changed["metadata"]["resourceVersion"] = "2"
    watched.sink.changed(POD_GROUP, json.dumps(changed).encode())
    assert watched.store.cluster().pod_groups["ml/g"].min_member == 2
    assert (POD_GROUP, "ml/g") in watched.sink.broken
    monkeypatch.undo()
    watched.sink.changed(POD_GROUP, json.dumps(changed).encode())
    assert watched.store.cluster().pod_groups["ml/g"].min_member == 3
