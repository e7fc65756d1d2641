"""Whatever stands in a pod of a workload and in what owns it: it costs its own group and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from kai_sched.api.custom import DNS_LABEL_LENGTH
from kai_sched.model.config import Config
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import POD, POD_GROUP, Reader
from kai_sched.reconcile.grouping.workload_errors import GroupingError
from tests.properties.hostile_requests import Recorder, illegal
from tests.properties.hostile_values import BY_KIND, DEEP, HUGE, texts, wrong_types
from tests.properties.hostile_wire import ANNOTATIONS, LABELS
from tests.properties.hostile_world import BASES, World, pod, strict
from tests.unit.operator.builders import Grouping
from tests.unit.reconcile.kinds import Row
from tests.unit.reconcile.kinds_more import ALL
from tests.unit.reconcile.workloads import World as View
from tests.unit.reconcile.workloads import grouping, places, wire

GROUPS = {"groups": [{"versions": [{"groupVersion": "batch/v1"}]}]}
RESOURCES = {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "uid": "uid-train", "namespace": "evil"}}
NAME_MAX = 253
ROWS = [row for row in ALL if row.things]


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """No exception is passed over; and what is logged of thousands of hostile objects says nothing here."""
    with strict():
        yield


def like(value: Any) -> st.SearchStrategy[Any]:
    """Extremes of the type that the value has, and nonsense."""
    if isinstance(value, bool):
        return BY_KIND["boolean"] | wrong_types
    if isinstance(value, int):
        return BY_KIND["integer"] | wrong_types
    if isinstance(value, str):
        return texts | BY_KIND["digits"] | BY_KIND["quantity"] | wrong_types
    if isinstance(value, list):
        return st.sampled_from([[], [None], value * 2, value * 50]) | wrong_types
    return st.dictionaries(texts, wrong_types, max_size=2) | wrong_types


def changed(data: st.DataObject, content: Any) -> None:
    """Put hostile values into it, some of them as labels and annotations that are read."""
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(content)))
        with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier value may be in the way
            parent = content
            for key in path[:-1]:
                parent = parent[key]
            value = data.draw(like(parent[path[-1]]).filter(lambda value: value != DEEP))
            parent[path[-1]] = copy.deepcopy(value)
    for field, keys in (("labels", LABELS), ("annotations", ANNOTATIONS)):
        key = data.draw(st.none() | st.sampled_from(sorted(keys)))
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            if key is not None:
                marks = content["metadata"].setdefault(field, {})
                marks[key] = data.draw(BY_KIND.get(keys[key], texts))


@given(row=st.sampled_from(ROWS), data=st.data())
def test_rules_answer_with_a_group_or_a_fault(row: Row, data: st.DataObject) -> None:
    """What they answer can be read, and its name is one that an object can have. What names an object stays sane
    here, as the view of this test goes by it."""
    things = json.loads(json.dumps(row.things))
    member = json.loads(json.dumps(row.pod))
    chosen = data.draw(st.sampled_from([*things, member]))
    parts = {part: chosen[part] for part in ("spec", "status") if part in chosen}
    parts["metadata"] = {part: chosen["metadata"].get(part, {}) for part in ("labels", "annotations")}
    changed(data, parts)
    chosen |= {part: parts[part] for part in ("spec", "status") if part in parts}
    chosen["metadata"] |= parts["metadata"] if isinstance(parts["metadata"], dict) else {}
    note(json.dumps([*things, member])[:3000])
    try:
        wire(member)
    except msgspec.DecodeError:
        return
    with contextlib.suppress(GroupingError):
        found = grouping(member, View(things))
        Reader(Config()).read(POD_GROUP, msgspec.json.encode(found.manifest), lambda *_: None)
        assert 0 < len(found.name) <= NAME_MAX
        assert len(found.sub_group) <= DNS_LABEL_LENGTH


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A server that has one Job, and takes what is written."""
    recorder = Recorder()
    recorder.answers = {"/apis": GROUPS, "/apis/batch/v1": RESOURCES, "/jobs/train": JOB}
    yield recorder
    recorder.close()


def owned(name: str, reference: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod of the Job, or of what the reference says."""
    content = pod(name, "evil", "evil", 1)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", **(reference or {})}
    content["metadata"]["ownerReferences"] = [owner]
    return content


references = st.fixed_dictionaries({}, optional=dict.fromkeys(("apiVersion", "kind", "name", "uid"), texts)).map(
    lambda found: owned("bad", found)
)
apart = st.builds(
    lambda name, namespace, key, value: _marked(owned("bad"), name, namespace, key, value),
    texts,
    st.sampled_from(["evil"]) | texts,
    st.sampled_from(sorted(LABELS | ANNOTATIONS)),
    texts,
)
_wrong = wrong_types.filter(lambda value: value not in (DEEP, HUGE))
answers = st.fixed_dictionaries({}, optional={"metadata": _wrong, "spec": _wrong, "kind": _wrong}).map(
    lambda found: {**JOB, **found}
)


def _marked(content: dict[str, Any], name: str, namespace: str, key: str, value: str) -> dict[str, Any]:
    meta = {**content["metadata"], "name": name, "namespace": namespace}
    for field in ("labels", "annotations"):
        meta[field] = {**(meta.get(field) or {}), key: value}
    return {**content, "metadata": meta}


@given(bad=references | apart, owner=st.none() | answers)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bad_owner_ends_nothing(recorder: Recorder, bad: dict[str, Any], owner: dict[str, Any] | None) -> None:
    """The grouper goes on, the pods of other workloads get their groups, and only sane paths are asked for."""
    recorder.seen.clear()
    recorder.answers = {"/apis": GROUPS, "/apis/batch/v1": RESOURCES, "/jobs/train": JOB}
    if owner is not None:
        recorder.answers |= {"/jobs/odd": owner}
        bad["metadata"]["ownerReferences"][0] |= {"name": "odd", "apiVersion": "batch/v1", "kind": "Job"}
    note(json.dumps(bad["metadata"])[:1000])
    recorder.loop.run_until_complete(_group(recorder, bad))
    assert illegal(recorder.seen) == []


@pytest.mark.parametrize("status", [400, 405, 410, 422, 500, 503])
def test_who_names_the_uid_of_another_owner_holds_up_nobody(recorder: Recorder, status: int) -> None:
    """As where a pod says that the Job of somebody else is an object that the API server cannot show."""
    recorder.answers = {"/apis": GROUPS, "/apis/batch/v1": RESOURCES, "/jobs/train": JOB}
    recorder.refused = {"/jobs/odd": status}
    try:
        recorder.loop.run_until_complete(_group(recorder, owned("bad", {"name": "odd"})))
    finally:
        recorder.refused = {}


async def _group(recorder: Recorder, bad: dict[str, Any]) -> None:
    world = World()
    grouper = Grouping(recorder.api, world.intake, Config)
    world.list([BASES["Namespace"]])
    world.sink.begin(POD)
    task = asyncio.create_task(grouper.run())
    try:
        await asyncio.sleep(0)
        world.show(bad)
        world.show(owned("good"))
        for _ in range(2000):
            found = world.store.get(Pod, "evil/good")
            if task.done() or (isinstance(found, Pod) and found.group and grouper.pending == 0):
                break
            await asyncio.sleep(0.001)
        assert not task.done(), f"the grouper has ended: {task.exception()}"
        found = world.store.get(Pod, "evil/good")
        assert isinstance(found, Pod), "a pod of a sane workload has no group"
        assert found.group == "pg-train-uid-train"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
