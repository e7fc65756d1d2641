"""The queues of an empty cluster."""

from __future__ import annotations

import yaml

from kai_sched.api import names
from tests.tree import ROOT


def test_the_default_queues_are_a_parent_and_its_child() -> None:
    parent, child = yaml.safe_load_all((ROOT / "kai_sched" / "operator" / "default_queues.yaml").read_text())
    assert parent["metadata"]["name"] == "default-parent-queue"
    assert child["metadata"]["name"] == names.DEFAULT_QUEUE
    assert child["spec"]["parentQueue"] == parent["metadata"]["name"]
    for queue in (parent, child):
        assert queue["apiVersion"] == names.QUEUE_VERSION
        shares = queue["spec"]["resources"]
        assert shares == {kind: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for kind in ("cpu", "gpu", "memory")}
