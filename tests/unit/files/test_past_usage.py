"""What queues used before, in a dump of a cluster whose scheduler counts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_sched.api.names import NAMESPACE
from kai_sched.files.load import load
from kai_sched.files.redaction import redacted
from kai_sched.model.config import Config
from tests.unit.files.inputs import Write, clean, queue, thing, told

USAGE = {"a": {"cpu": 0.5, "memory": 0.25, "gpu": 1.0}}


def usage_map(usage: Any = USAGE, name: str = "kai-scheduler-usage", namespace: str = NAMESPACE) -> dict[str, Any]:
    found = thing("ConfigMap", name, None, namespace, data={"usage": json.dumps(usage), "secret": "x"})
    found.pop("spec", None)
    return found


def shard(name: str = "default", **spec: Any) -> dict[str, Any]:
    return thing("SchedulingShard", name, {"usageDBConfig": {"clientType": "internal"}, **spec})


def test_it_counts_where_the_scheduler_counts_it(write: Write) -> None:
    (case,) = clean(write("a.json", queue("a"), queue("b"), usage_map(), shard()))
    queues = case.store.cluster().queues
    assert (queues["a"].usage, queues["b"].usage) == ((0.5, 0.25, 1.0), (0.0, 0.0, 0.0))
    (case,) = clean(write("b.json", queue("a"), usage_map()))
    assert case.store.cluster().queues["a"].usage == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("other", [{"name": "kai-scheduler-blue-usage"}, {"namespace": "tenant"}])
def test_that_of_others_does_not(write: Write, other: dict[str, str]) -> None:
    (case,) = clean(write("a.json", queue("a"), usage_map(**other), shard()))
    assert case.store.cluster().queues["a"].usage == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("pool", "used"), [("a", 0.25), ("b", 0.5), ("c", 0.0)])
def test_of_several_pools_that_of_the_queue_counts(write: Write, pool: str, used: float) -> None:
    """The accounts of a pool that it has left have it, too."""
    maps = [usage_map({"q": {"gpu": gpu}}, f"kai-scheduler-{name}-usage") for name, gpu in (("a", 0.25), ("b", 0.5))]
    shards = [shard(name, partitionLabelValue=name) for name in "abc"]
    found = queue("q")
    found["metadata"]["labels"] = {Config().node_pool_label: pool}
    (case,) = clean(write("a.json", found, *maps, *shards), all_shards=True)
    assert case.store.cluster().queues["q"].usage.gpu == used


def test_with_shares_of_the_cluster_those_of_all_pools_count(write: Write) -> None:
    found = queue("q")
    found["metadata"]["labels"] = {Config().node_pool_label: "a"}
    config = thing("Config", "kai-config", {"global": {"fairShare": "cluster"}})
    given = (usage_map({"q": {"gpu": 0.5}}), shard(), shard("a", partitionLabelValue="a"), config)
    (case,) = clean(write("a.json", found, *given), all_shards=True)
    assert case.store.cluster().queues["q"].usage.gpu == 0.5


DEEP = '{"a": {"b": ' + "[" * 10_000 + "]" * 10_000 + "}}"


@pytest.mark.parametrize(
    "text", ["[]", "", '{"a": {"gpu": -1}}', '{"a": {"gpu": 1e999}}', '{"a": 1}', '{"a": {"gpu": "x"}}', DEEP]
)
def test_what_cannot_be_read_is_told(write: Write, text: str) -> None:
    content = usage_map() | {"data": {"usage": text}}
    lines = told(load([write("a.json", queue("a"), content, shard())]))
    assert [line for line in lines if "data.usage: " in line and "the past does not count" in line]


def test_a_dump_keeps_it_and_nothing_else_of_the_map() -> None:
    found = redacted(usage_map())
    assert found is not None
    assert list(found["data"]) == ["usage"]
    for other in (usage_map(namespace="tenant"), usage_map(name="settings")):
        assert "data" not in (redacted(other) or {})
