"""Binds that are on their way, laid over what the API server shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched.model.inflight import Overlay
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
