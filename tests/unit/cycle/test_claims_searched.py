"""For which claims a search for victims is begun at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_sched import Config, Store, run_cycle
from kai_sched.model.read.kinds import Reader
from tests.unit.cycle.test_claims import CLASS, claim, count, node, pod, queue


def selecting(expression: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}
    return {"name": "s", "exactly": exactly}


@pytest.mark.parametrize(
    ("requests", "searches"),
    [
        ([selecting("device.driver != 'gpu.example.com'")], False),
        ([count(3)], False),
        ([count(1), selecting("false")], False),
        ([count(2)], True),
        ([selecting("true")], True),
    ],
)
def test_no_victims_are_searched_for_where_no_node_has_such_devices(
    requests: list[dict[str, Any]], searches: bool
) -> None:
    devices = [("n", "gpu-0"), ("n", "gpu-1")]
    objects = [*node("n", 2), queue("q", 0), queue("mine", 2), CLASS, claim("old", [count(2)], had=devices)]
    objects += [pod("p-old", "old", node="n"), claim("new", requests, "mine"), pod("new", "new", "mine")]
    config = Config(actions=("allocate", "reclaim"), search_work=0)  # any search is cut
    store, reader = Store(), Reader(config)
    for each in objects:
        store.put(reader.read((each["apiVersion"], each["kind"]), json.dumps(each).encode(), lambda *_: None))
    assert bool(run_cycle(store.cluster(), config, 0).searches) is searches
