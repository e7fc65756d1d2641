"""Settings that are read before anything is watched, and go before the first list."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from kai_sched.model.config import Config
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD
from kai_sched.operator.app import build_intake
from kai_sched.operator.clock import Clock
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.telemetry.metrics import Metrics


def raw(name: str, spec: dict[str, object]) -> bytes:
    return json.dumps({"metadata": {"name": name, "resourceVersion": "1"}, "spec": spec}).encode()


@pytest.mark.parametrize("served", ["", "blue"])
def test_what_the_first_list_does_not_have_is_forgotten(served: str) -> None:
    settings = LiveSettings(Config(), served)
    settings.observe(OPERATOR_CONFIG, "kai-config", raw("kai-config", {"global": {"gpuSharing": True}}))
    for name in ("blue", "green"):
        settings.observe(SHARD, name, raw(name, {"partitionLabelValue": name}))
    base: Any = SimpleNamespace(
        settings=settings, clock=Clock(), rng=random.Random(1), api=None, pages=SimpleNamespace(metrics=Metrics())
    )
    sink = build_intake(base).sink
    sink.begin(SHARD)
    sink.item(SHARD, raw("green", {"partitionLabelValue": "green"}))
    assert "blue" in [each.node_pool for each in settings.shards.values()], "until the list is complete"
    sink.finish(SHARD)
    assert [each.node_pool for each in settings.shards.values()] == ([""] if served else ["", "green"])
    assert settings.config.gpu_sharing
    sink.begin(OPERATOR_CONFIG)
    sink.finish(OPERATOR_CONFIG)
    assert not settings.config.gpu_sharing
