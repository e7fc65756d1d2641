"""Observations: who takes them knows what is there, and who never does keeps nothing of what has gone."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.operator.reporting.observations import (
    KUBERNETES_GROUP,
    OWNER,
    POD,
    POD_GROUP,
    QUEUE,
    Facts,
    GroupOwner,
    KubernetesGroup,
    Observations,
)
from kai_sched.plan.effects import Ref
from kai_sched.reconcile.grouping.manifest import QueueChoice

Known = dict[tuple[str, str], str]  # uids by kind and key

CHOICE = QueueChoice("team", "Job ml/x", "metadata.labels")
OBSERVE: dict[str, Callable[[Observations, str, str], None]] = {
    QUEUE: lambda news, key, uid: news.observe_queue(key, uid, b"{}"),
    POD_GROUP: lambda news, key, uid: news.observe_pod_group(key, uid, b"{}"),
    KUBERNETES_GROUP: lambda news, key, uid: news.observe_kubernetes_group(key, uid, b"{}", 1),
    POD: lambda news, key, uid: news.observe_pod(key, uid, None),
    OWNER: lambda news, key, uid: news.owners.observe(key, Ref("batch/v1", "Job", "ml", "x", uid), CHOICE),
}
FORGET: dict[str, Callable[[Observations, str], None]] = {
    QUEUE: Observations.forget_queue,
    POD_GROUP: Observations.forget_pod_group,
    KUBERNETES_GROUP: Observations.forget_kubernetes_group,
    POD: Observations.forget_pod,
    OWNER: lambda news, key: news.owners.forget(key),
}
STEPS = st.tuples(
    st.sampled_from(["observe", "forget", "take"]), st.sampled_from(sorted(OBSERVE)), st.sampled_from("abc")
)


def uid_of(facts: Facts) -> str:
    match facts:
        case KubernetesGroup(uid=uid) | GroupOwner(owner=Ref(uid=uid)) | (str(uid), *_):
            return uid
    raise AssertionError(facts)


def take(news: Observations, known: Known) -> None:
    """What the reconciler does with them."""
    for each, facts in news.take().items():
        if facts is None:
            del known[each]  # it is told of nothing that it never heard of
        else:
            known[each] = uid_of(facts)


@given(st.lists(STEPS, max_size=80))
def test_observations_are_no_more_than_objects_and_say_all(steps: list[tuple[str, str, str]]) -> None:
    """Objects come and go in any order, and observations are taken at any time or never."""
    news, there, known = Observations(), Known(), Known()
    for number, (what, kind, key) in enumerate(steps):
        if what == "take":
            take(news, known)
            assert known == there
        elif what == "observe":
            there[kind, key] = str(number)
            OBSERVE[kind](news, key, str(number))
        else:
            there.pop((kind, key), None)
            FORGET[kind](news, key)
        waiting = vars(news)["_found"].keys()
        assert waiting <= there.keys() | known.keys()
        assert known.keys() - there.keys() <= waiting
    take(news, known)
    assert known == there


@given(st.lists(STEPS, max_size=80))
def test_a_standby_keeps_only_what_is_there(steps: list[tuple[str, str, str]]) -> None:
    news, there = Observations(), set()
    for number, (what, kind, key) in enumerate(steps):
        if what == "observe":
            there.add((kind, key))
            OBSERVE[kind](news, key, str(number))
        else:
            there.discard((kind, key))
            FORGET[kind](news, key)
    assert vars(news)["_found"].keys() == there
