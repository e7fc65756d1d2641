"""Looks for garbage stay short: what was read at the start, or found alive by a long look, is left out."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kai_sched.operator import garbage_collection
from kai_sched.operator.garbage_collection import THRESHOLDS, GarbagePolicy


@pytest.fixture
def calm() -> Iterator[GarbagePolicy]:
    before, hooks = gc.get_threshold(), gc.callbacks.copy()
    calm = GarbagePolicy()
    calm.start()
    gc.unfreeze()
    yield calm
    calm.stop()
    assert gc.callbacks == hooks
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_was_imported_is_not_looked_at() -> None:
    before, kept = gc.get_threshold(), [[number] for number in range(50_000)]
    policy = GarbagePolicy()
    policy.start()
    assert gc.get_freeze_count() >= len(kept)
    policy.stop()
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_was_there_when_it_settled_is_not_looked_at_again(calm: GarbagePolicy) -> None:
    assert gc.get_threshold() == THRESHOLDS
    kept = [[number] for number in range(50_000)]
    calm.settle()
    assert gc.get_freeze_count() >= len(kept)
    assert len(gc.get_objects()) < len(kept)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.usefixtures("calm")
def test_what_a_long_look_found_alive_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [[number] for number in range(50_000)]
    monkeypatch.setattr(garbage_collection, "LONG_S", 3600.0)
    gc.collect()
    assert gc.get_freeze_count() == 0
    monkeypatch.setattr(garbage_collection, "LONG_S", 0.0)
    gc.collect(1)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gc.get_freeze_count() >= len(kept)
