"""Claims whose devices take long to search for, on a real API server: the pods of others do not wait for them."""

from __future__ import annotations

import time

from kai_sched.api import names
from tests.cluster import claims, objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import StartOperator
from tests.cluster.processes import wait_until
from tests.cluster.test_selectors import bound_after_s

NODES, DEVICES, CLAIMS = 100, 8, 20
CONSTRAINTS_MAX = 32  # that the API server takes


def one_too_many(name: str, number: int) -> Object:
    """A claim for one device more than a node has, each by a request of its own with another selector."""
    requests = [
        {
            "name": f"r{r}",
            "firstAvailable": [
                {
                    "name": "one",
                    "deviceClassName": claims.DRIVER,
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "selectors": [{"cel": {"expression": f"device.driver != 'x-{number % 4}-{r}'"}}],
                }
            ],
        }
        for r in range(DEVICES + 1)
    ]
    constraints = [{"matchAttribute": f"{claims.DRIVER}/kind"}] * CONSTRAINTS_MAX
    content = claims.claim(name)
    content["spec"]["devices"] = {"requests": requests, "constraints": constraints}
    return content


def test_claims_that_no_node_can_serve_keep_nobody_waiting(cluster: Cluster, operator: StartOperator) -> None:
    """20 pods with such claims on 100 nodes, and pods of others that come meanwhile."""
    cluster.add_queues("team")
    cluster.create(claims.device_class())
    kind = {"kind": {"string": "a"}}
    nodes = cluster.add_nodes(NODES, gpus=0)
    cluster.create_all(claims.resource_slice(node, DEVICES, attributes=kind) for node in nodes)
    for n in range(CLAIMS):
        cluster.create(one_too_many(f"hard-{n}", n))
        cluster.create(claims.pod(f"hard-{n}", f"hard-{n}"))
    one = operator()
    wait_until(lambda: one.logs("lease.held"), "the lease")
    for n in range(20):
        cluster.create(objects.pod(f"p-{n}", gpus=0))
        cluster.create(claims.claim(f"c-{n}"))
        cluster.create(claims.pod(f"c-{n}", f"c-{n}"))
        time.sleep(0.25)
    others = [f"{kind}-{n}" for kind in "pc" for n in range(20)]
    cluster.wait_bound(others, timeout_s=30.0)
    waited_s = max(bound_after_s(cluster.get("Pod", name)) for name in others)
    print(f"pods of others waited for {waited_s:.0f} s at most")
    assert waited_s <= 5.0
    told = cluster.wait_condition("Pod", "hard-0", names.POD_SCHEDULED, status="False")
    assert "whether all claims can be allocated takes too long to find out" in told["message"]
    assert one.logs("cycle.failed") == one.logs("lease.lost") == []
