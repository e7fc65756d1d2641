"""Metrics of the process: what failed, how often and why, its memory, and its certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from kai_sched.model.store import Cluster
from kai_sched.plan.effects import Evict, Side
from kai_sched.telemetry.memory_limit import memory_limit_bytes
from kai_sched.telemetry.metrics import BIND_REASONS_MAX, Metrics
from kai_sched.telemetry.series import OTHERS
from tests.unit.telemetry.test_metrics import values

NONE = (0.0, 0.0, 0.0)
EVICTION = Evict("ml/a", "a", "node-1", "reclaim", "ml/x", "ml/train", (("cpu", 100.0), ("gpu", 1.0)), "", False, ())


def held(gpus: float, cpu: float, quota: float) -> tuple[Side, ...]:
    """The sides of an eviction whose victim's queue holds this, with a quota of GPUs and of a core."""
    return (
        Side("victim", 100, (cpu, 0.0, gpus), (1000.0, 0.0, quota), NONE),
        Side("other", 100, NONE, (math.inf, math.inf, math.inf), NONE),
    )


@pytest.mark.parametrize(
    ("eviction", "reason"),
    [
        (replace(EVICTION, sides=held(3.0, 0.0, 2.0)), "OverQuota"),
        (replace(EVICTION, sides=held(2.0, 0.0, 2.0)), "WithinQuota"),
        # Beyond its quota of memory or cores only, of which the eviction frees none.
        (replace(EVICTION, freed=(("gpu", 1.0),), sides=held(2.0, 9000.0, 2.0)), "WithinQuota"),
        (replace(EVICTION, sides=held(2.0, 9000.0, 2.0)), "OverQuota"),
        (replace(EVICTION, sides=held(9.0, 9.0, math.inf), freed=(("gpu", 1.0),)), "WithinQuota"),
        (EVICTION, "WithinQuota"),
        (replace(EVICTION, moved=True), "Moved"),
        (replace(EVICTION, action="preempt"), "Priority"),
        (replace(EVICTION, action="consolidation", moved=True), "Moved"),
        (replace(EVICTION, action="consolidation"), "Consolidated"),
        (replace(EVICTION, action="stalegangeviction", cause=""), "BelowMinimum"),
    ],
)
def test_evictions_are_counted_by_action_and_reason(eviction: Evict, reason: str) -> None:
    metrics = Metrics()
    metrics.observe_eviction(eviction, Cluster.of([]))
    expected = (("action", eviction.action), ("reason", reason))
    assert values(metrics, "kai_evictions_total") == {expected: 1.0}


def test_binds_that_fail_are_counted_by_a_bounded_number_of_reasons() -> None:
    metrics = Metrics()
    for number in range(BIND_REASONS_MAX + 5):
        metrics.count_bind_failure(f"Reason{number}")
    metrics.count_bind_failure("Reason0")
    found = values(metrics, "kai_bind_failures_total")
    assert len(found) == BIND_REASONS_MAX + 1
    assert (found[("reason", "Reason0"),], found[("reason", OTHERS),]) == (2.0, 5.0)


def test_the_certificate_recordings_and_the_version_are_shown() -> None:
    metrics = Metrics(version="1.2.3")
    assert values(metrics, "kai_webhook_certificate_end_timestamp_seconds") == {(): 0.0}
    metrics.observe_certificate(1_800_000_000.0)
    metrics.count_recording_failure()
    assert values(metrics, "kai_webhook_certificate_end_timestamp_seconds") == {(): 1_800_000_000.0}
    assert values(metrics, "kai_recording_failures_total") == {(): 1.0}
    assert values(metrics, "kai_build_info") == {(("version", "1.2.3"),): 1.0}


@pytest.mark.parametrize(
    ("texts", "limit"),
    [
        (["2147483648\n"], 2**31),
        (["max\n"], math.inf),
        (["9223372036854771712\n"], math.inf),
        ([None, "1048576\n"], 2**20),
        (["no number", None], math.inf),
        ([], math.inf),
    ],
)
def test_the_limit_on_memory_is_that_of_the_control_group(
    texts: list[str | None], limit: float, tmp_path: Path
) -> None:
    files = [tmp_path / str(number) for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        if text is not None:
            file.write_text(text)
    assert memory_limit_bytes(files) == limit


def test_the_memory_and_its_limit_are_comparable() -> None:
    metrics = Metrics()
    assert values(metrics, "process_resident_memory_bytes")[()] > 0.0
    assert values(metrics, "kai_memory_limit_bytes")[()] > 0.0
