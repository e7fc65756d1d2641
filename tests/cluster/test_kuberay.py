"""KubeRay with us as its batch scheduler."""

from __future__ import annotations

import yaml

from tests.cluster import components
from tests.cluster.client import Object
from tests.cluster.conftest import Workloads
from tests.cluster.processes import wait_until

WORKLOAD_OPERATORS = ("kuberay",)


def groups(workloads: Workloads) -> list[Object]:
    return list(workloads.cluster.list("PodGroup", "default"))


def test_the_sample_of_kuberay_runs_unchanged(workloads: Workloads) -> None:
    (sample,) = components.shipped("kuberay", "ray-cluster.kai-scheduler.yaml")
    cluster = workloads.cluster
    cluster.add_nodes(1)
    cluster.kubectl("apply", "-f", str(sample))

    def running():
        pods = cluster.list("Pod", "default")
        assert len(pods) == 3, [p["metadata"]["name"] for p in pods]
        assert all(p["status"]["phase"] == "Running" for p in pods), [
            (p["metadata"]["name"], p["status"]) for p in pods
        ]
        return True

    wait_until(running, "pods", 60)
    print(yaml.safe_dump(groups(workloads)))
    print(yaml.safe_dump(cluster.list("Pod", "default")[0]))
