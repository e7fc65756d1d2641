"""Whatever stands in an object that is read: no exception, no wrong booking, no other object's plan changed.

The objects come as bytes, as the API server sends them, through the sink, cycles and the reconciler to the requests
that arrive at a server. A failure names the object, the field and the value.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from kai_sched import Cache
from kai_sched.api import names
from tests.properties.hostile_requests import Recorder
from tests.properties.hostile_truth import carried_out, overfull
from tests.properties.hostile_values import BY_KIND, DEEP_LEVELS, encode, texts
from tests.properties.hostile_wire import ANNOTATIONS, LABELS, PREFIXES
from tests.properties.hostile_world import (
    ADMINISTRATORS,
    BASES,
    GPU,
    SETTINGS,
    TENANTS,
    Hostile,
    World,
    hostiles,
    may_compete,
    pod,
    sane_objects,
    sane_part,
    strict,
    world_of,
)
from tests.properties.plans import text_of

SANE = sane_objects()
DECIDED = world_of(SANE).decide()
EXPECTED, ALL_EXPECTED = sane_part(DECIDED), text_of(DECIDED)
FIXTURES = [HealthCheck.function_scoped_fixture]
# An example is a dozen cycles.
FEWER = settings(max_examples=max(10, settings().max_examples * 2 // 5), suppress_health_check=FIXTURES)
LONG = settings(max_examples=3000, suppress_health_check=[*HealthCheck])


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """No exception is passed over; and what is logged of thousands of hostile objects says nothing here."""
    with strict():
        yield


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A server that notes what is sent."""
    recorder = Recorder()
    yield recorder
    recorder.close()


def test_the_sane_plan_has_something_of_all() -> None:
    """Else the property that it stays as it is would say little."""
    _, done = EXPECTED  # type: ignore[misc]
    assert {kind for kind, _, _ in done} == {"Bind", "Pipeline", "Evict"}
    assert overfull(SANE, world_of(SANE).decide()) == []


def test_an_overfull_node_is_found() -> None:
    """The checker of nodes can fail: what binds is counted beside what is held, by the containers alone."""
    result = world_of(SANE).decide()
    holder = pod("more", "evil", "", 4, node="a", schedulerName="other")
    holder["metadata"]["annotations"] = {"gpu-fraction": "0.1"}
    assert overfull([*SANE, holder], result) == [f"node a has 8 {GPU}, 7 of it held, and gets 3 more"]


def check(world: World, found: list[Hostile], recorder: Recorder | None) -> None:
    """One cycle with what the world knows now: decided as from scratch, and all that comes of it can be sent."""
    result = world.decide()
    objects = list(world.objects.values())
    note(f"{len(objects)} objects, {len(result.effects)} effects")
    changes_by_right = any(may_compete(each) for each in objects)
    if all(each.sane["kind"] not in SETTINGS for each in found) and not changes_by_right:
        assert sane_part(result) == EXPECTED, "the others' plan has changed"
    assert overfull(objects, result) == []
    assert text_of(world.decide(Cache())) == text_of(result), "a cold cache decides otherwise"
    writes = world.told(result)
    if recorder is not None:
        assert recorder.carry_out(world, result, writes) == [], "requests that must not be sent"


def live_through(found: list[Hostile], listed: bool, recorder: Recorder) -> None:
    """The objects come, are mended, are broken again, their pods run, and in the end they are gone."""
    world = world_of(SANE)
    assert sane_part(world.decide()) == EXPECTED
    if listed:
        world = world_of([*SANE, *(each.content for each in found)])
    else:
        for each in found:
            world.show(each.content)
    check(world, found, recorder)
    for each in found:
        world.show(each.sane)
    check(world, found, None)
    for each in found:
        world.show(each.content)
    check(world, found, None)
    after = world_of(carried_out(world.objects.values(), world.decide()))
    assert overfull(after.objects.values(), after.decide()) == []
    for each in found:
        world.drop(each.content)
        world.drop(each.sane)
    for each in SANE:
        world.show(each)
    result = world.decide()
    assert sane_part(result) == EXPECTED, "something is left of it"
    assert text_of(result) == ALL_EXPECTED, "something is left of it"
    world.told(result)


@given(st.lists(hostiles(TENANTS), min_size=1, max_size=3), st.booleans())
@FEWER
def test_what_tenants_write(recorder: Recorder, found: list[Hostile], listed: bool) -> None:
    live_through(found, listed, recorder)


@given(st.lists(hostiles(ADMINISTRATORS), min_size=1, max_size=2), st.lists(hostiles(TENANTS), max_size=1))
@FEWER
def test_what_administrators_write(recorder: Recorder, found: list[Hostile], more: list[Hostile]) -> None:
    live_through([*found, *more], False, recorder)


@pytest.mark.long
@LONG
@given(st.lists(hostiles([*TENANTS, *ADMINISTRATORS], 6), min_size=1, max_size=4), st.booleans())
def test_what_anybody_writes_for_long(recorder: Recorder, found: list[Hostile], listed: bool) -> None:
    live_through(found, listed, recorder)


@given(hostiles(sorted(BASES), versions=True), st.data())
def test_bytes_that_are_no_object(found: Hostile, data: st.DataObject) -> None:
    """What cannot be decoded is left out, whoever sends it, and the next version of it is read."""
    raw = encode(found.content)
    at = data.draw(st.integers(0, len(raw)))
    deep = b"[" * DEEP_LEVELS + b"]" * DEEP_LEVELS
    broken = data.draw(
        st.sampled_from(
            [
                raw,
                raw[:at],
                raw[:at] + b"\xff" + raw[at:],
                raw[:at] + b"\x00" + raw[at:],
                deep,
                b"",
                b"null",
                b"[]",
                b"{}",
            ]
        )
        | st.just(b'{"metadata":{"name":"a"},' + raw[1:])
        | st.just(raw[:-1] + b',"metadata":null}')
        | st.binary(max_size=30)
    )
    world, kind = world_of(SANE), found.kind
    note(repr(broken[:300]))
    world.sink.changed(kind, broken)
    world.decide()
    world.sink.begin(kind)
    world.sink.item(kind, broken)
    world.sink.deleted(kind, broken)
    world.sink.finish(kind)
    world.told(world.decide())
    world.list(SANE)
    if found.role not in SETTINGS:
        assert sane_part(world.decide()) == EXPECTED


# Forged claims

_NOTES = {f"{key}{PREFIXES.get(key, '')}": kind for key, kind in ANNOTATIONS.items()}
_MARKS = {f"{key}{PREFIXES.get(key, '')}": kind for key, kind in LABELS.items()}


def forged(keys: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """Labels or annotations that say whatever they like, most of all what they are read for."""
    kinds = BY_KIND | {"application": st.sampled_from(["kai-resource-reservation", "kai-scale-adjust", "a"])}
    claims = [key for key in sorted(keys) if "gpu" in key or "mig" in key or key == names.APP_LABEL]
    key = st.sampled_from(claims) | st.sampled_from(sorted(keys))
    one = key.flatmap(lambda key: st.tuples(st.just(key), kinds[keys[key]].map(storable)))
    return st.lists(one | one | st.tuples(texts.map(storable), texts.map(storable)), max_size=4).map(dict)


def storable(value: object) -> str:
    """The text as the API server keeps it, which knows no half characters; numbers and quantities as texts."""
    return str(value).encode(errors="replace").decode()


@given(
    held=st.integers(1, 8),
    asked=st.integers(1, 8),
    limits=st.booleans(),
    ours=st.booleans(),
    marks=forged(_MARKS),
    notes=forged(_NOTES),
)
def test_no_claim_makes_a_pod_hold_less(
    held: int, asked: int, limits: bool, ours: bool, marks: dict[str, str], notes: dict[str, str]
) -> None:
    """A pod on a node holds the GPUs of its containers, whatever its labels and annotations say."""
    holder = pod("holder", "evil", "evil", 0, node="a")
    holder["spec"]["schedulerName"] = "kai-scheduler" if ours else "default-scheduler"
    resources = {"limits" if limits else "requests": {GPU: str(held), "cpu": "1"}}
    holder["spec"]["containers"] = [{"name": "a", "resources": resources}]
    holder["metadata"]["labels"] |= marks
    holder["metadata"]["annotations"] = notes
    others = [each for each in SANE if each["kind"] != "Pod"]
    result = world_of([*others, holder, pod("asks", "evil", "evil", asked)]).decide()
    bound = [effect for effect in result.effects if effect.pod == "evil/asks" and effect.node == "a"]
    if held + asked > 8:
        assert [type(effect).__name__ for effect in bound if type(effect).__name__ == "Bind"] == []


@given(marks=forged(_MARKS), notes=forged(_NOTES))
def test_two_pods_never_get_the_same_devices(marks: dict[str, str], notes: dict[str, str]) -> None:
    """Pods that ask for whole GPUs get them once, whatever they call themselves."""
    others = [each for each in SANE if each["kind"] != "Pod"]
    pods = [pod(name, "evil", "evil", 5) for name in ("one", "two")]
    for each in pods:
        each["metadata"]["labels"] |= marks
        each["metadata"]["annotations"] = dict(notes)
    result = world_of([*others, *pods]).decide()
    bound = [effect.pod for effect in result.effects if type(effect).__name__ == "Bind"]
    assert len(bound) <= 1
