"""Binds and evictions that are on their way, laid over what the API server shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched.model.inflight import Overlay
from kai_sched.model.numa import ZoneAmounts
from kai_sched.model.objects import Phase, Pod, Shape
from kai_sched.model.store import Store

POD = Pod("ml", "p", Shape(), uid="u1")


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def overlay(store: Store) -> Overlay:
    overlay = Overlay(store)
    overlay.observe(POD)
    return overlay


def shown(store: Store) -> Pod:
    pod = store.get(Pod, "ml/p")
    assert isinstance(pod, Pod)
    return pod


def test_assumed_pod_counts_on_its_node(store: Store, overlay: Overlay) -> None:
    assert overlay.assume("ml/p", "u1", "n1")
    assert shown(store).node == "n1"


def test_news_without_a_node_leave_the_bind_assumed(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.observe(replace(POD, labels={"a": "b"}))
    assert shown(store) == replace(POD, labels={"a": "b"}, node="n1")


def test_what_a_bind_says_of_numa_zones_counts_until_the_pod_is_shown_with_it(store: Store, overlay: Overlay) -> None:
    zones = (ZoneAmounts("node-0", (("gpu", 1.0),)),)
    overlay.observe(replace(POD, zones=(ZoneAmounts("node-7", ()),), zones_observed=True))
    overlay.assume("ml/p", "u1", "n1", zones=zones)
    assert (shown(store).zones, shown(store).zones_observed) == (zones, False)
    overlay.forget("ml/p", "u1")
    assert shown(store).zones[0].zone == "node-7"


def test_the_observed_bind_changes_nothing(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    before = store.cluster().serial
    overlay.observe(replace(POD, node="n1"))
    assert store.cluster().serial == before
    assert overlay.assumed == {}


def test_a_bind_by_somebody_else_wins(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.observe(replace(POD, node="n2"))
    assert shown(store).node == "n2"
    overlay.forget("ml/p", "u1")
    assert shown(store).node == "n2"


def test_a_failed_bind_is_taken_back_to_the_latest_news(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.observe(replace(POD, labels={"a": "b"}))
    overlay.forget("ml/p", "u1")
    assert shown(store) == replace(POD, labels={"a": "b"})


def test_a_recreated_pod_does_not_inherit_the_bind(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.observe(replace(POD, uid="u2"))
    assert shown(store).node == ""
    overlay.forget("ml/p", "u1")
    assert shown(store) == replace(POD, uid="u2")


def test_only_the_pod_that_is_there_can_be_assumed(overlay: Overlay) -> None:
    assert not overlay.assume("ml/p", "u2", "n1")
    assert not overlay.assume("ml/q", "u1", "n1")
    overlay.observe(replace(POD, node="n3", phase=Phase.RUNNING))
    assert not overlay.assume("ml/p", "u1", "n1")


def test_a_deleted_pod_leaves_no_bind_behind(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.gone("ml/p")
    overlay.forget("ml/p", "u1")
    assert store.get(Pod, "ml/p") is None


NOW_NS = 5 * 10**9


def test_an_expected_eviction_counts_as_leaving(store: Store, overlay: Overlay) -> None:
    overlay.observe(replace(POD, node="n1", phase=Phase.RUNNING))
    assert overlay.expect("ml/p", "u1", NOW_NS)
    assert shown(store).deleted_ns == NOW_NS
    assert not overlay.leaves("ml/p")
    assert not overlay.expect("ml/p", "u1", NOW_NS + 1)
    overlay.observe(replace(POD, node="n1", labels={"a": "b"}))
    assert shown(store) == replace(POD, node="n1", labels={"a": "b"}, deleted_ns=NOW_NS)


def test_the_observed_deletion_is_the_one_that_counts(store: Store, overlay: Overlay) -> None:
    overlay.expect("ml/p", "u1", NOW_NS)
    overlay.observe(replace(POD, deleted_ns=NOW_NS + 30))
    assert (shown(store).deleted_ns, overlay.assumed) == (NOW_NS + 30, {})
    assert overlay.leaves("ml/p")
    overlay.cancel_eviction("ml/p", "u1")
    assert shown(store).deleted_ns == NOW_NS + 30
    assert not overlay.expect("ml/p", "u1", NOW_NS)


def test_a_pod_whose_eviction_was_cancelled_is_again_as_it_was_last_seen(store: Store, overlay: Overlay) -> None:
    overlay.expect("ml/p", "u1", NOW_NS)
    overlay.observe(replace(POD, labels={"a": "b"}))
    overlay.cancel_eviction("ml/p", "u1")
    assert shown(store) == replace(POD, labels={"a": "b"})
    assert overlay.assumed == {}
    assert overlay.expect("ml/p", "u1", NOW_NS)


def test_a_recreated_pod_does_not_inherit_the_eviction(store: Store, overlay: Overlay) -> None:
    overlay.expect("ml/p", "u1", NOW_NS)
    overlay.observe(replace(POD, uid="u2"))
    assert shown(store).deleted_ns == 0
    overlay.cancel_eviction("ml/p", "u1")
    assert shown(store) == replace(POD, uid="u2")
    assert not overlay.expect("ml/p", "u1", NOW_NS)
    assert not overlay.expect("ml/q", "u1", NOW_NS)


def test_an_evicted_pod_whose_bind_was_under_way_loses_both(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.expect("ml/p", "u1", NOW_NS)
    assert (shown(store).node, shown(store).deleted_ns) == ("n1", NOW_NS)
    overlay.forget("ml/p", "u1")
    assert (shown(store).node, shown(store).deleted_ns) == ("", NOW_NS)
    overlay.cancel_eviction("ml/p", "u1")
    assert shown(store) == POD


def test_an_evicted_pod_that_is_gone_leaves_nothing_behind(store: Store, overlay: Overlay) -> None:
    overlay.expect("ml/p", "u1", NOW_NS)
    overlay.gone("ml/p")
    overlay.cancel_eviction("ml/p", "u1")
    assert (store.get(Pod, "ml/p"), overlay.assumed, overlay.leaves("ml/p")) == (None, {}, False)


def test_a_pod_of_another_group_keeps_what_is_on_its_way(store: Store, overlay: Overlay) -> None:
    overlay.assume("ml/p", "u1", "n1")
    overlay.expect("ml/p", "u1", 5)
    overlay.regroup("ml/p", "u1", lambda pod: replace(pod, group="g"))
    assert (shown(store).group, shown(store).node, shown(store).deleted_ns) == ("g", "n1", 5)
    overlay.forget("ml/p", "u1")
    assert (shown(store).group, shown(store).node) == ("g", "")
    for key, uid in (("ml/p", "other"), ("ml/q", "u1")):
        overlay.regroup(key, uid, lambda pod: replace(pod, group="h"))
    assert shown(store).group == "g"
