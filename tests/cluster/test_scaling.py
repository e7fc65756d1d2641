"""Scaling pods on the API server, made with the rights of the manifests and no more (API 13)."""

from __future__ import annotations

from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import Api
from kai_sched.model.config import Config, ScalingSettings
from kai_sched.model.read.kinds import VERSIONS, Reader
from kai_sched.model.store import Cluster as View
from kai_sched.operator.clock import Clock
from kai_sched.operator.scaling import ScalingPods
from tests.cluster import objects, sharing
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.device_plugin import DevicePlugin
from tests.cluster.installed import MANIFESTS
from tests.cluster.processes import wait_until

NAMESPACE = "kai-scale-adjust"
CONFIG = Config(gpu_sharing=True, scaling=ScalingSettings(enabled=True, image="registry.test/ends-at-once:1"))
WAITS = {"type": names.POD_SCHEDULED, "status": "False", "reason": names.UNSCHEDULABLE, "message": "as the test says"}


def view(cluster: Cluster) -> View:
    """The cluster as the informers would show it."""
    reader = Reader(CONFIG)
    found = [
        reader.read((VERSIONS[kind], kind), msgspec.json.encode(content), lambda *_: None)
        for kind in ("Node", "Pod")
        for content in cluster.list(kind)
    ]
    return View.of(found)


def half(name: str, **spec: Any) -> Any:
    return objects.pod(name, gpus=0, annotations={names.GPU_FRACTION_ANNOTATION: "0.6"}, **spec)


async def test_waiting_parts_become_visible_to_autoscalers(cluster: Cluster, own_plane: ControlPlane) -> None:
    cluster.add_namespace(SYSTEM_NAMESPACE)
    adjuster = MANIFESTS / "components" / "node-scale-adjuster"
    files = [MANIFESTS / "rbac.yaml", adjuster / "namespace.yaml", adjuster / "rbac.yaml"]
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    mark = own_plane.audit.mark()
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    cluster.create_all([half("a", nodeSelector={"pool": "gpu"}, tolerations=tolerations), half("b"), half("quiet")])
    for name in ("a", "b"):
        cluster.patch("Pod", name, {"status": {"conditions": [WAITS]}}, subresource="/status")

    api = await Api.connect(str(own_plane.kubeconfig(SERVICE_ACCOUNT, token=token)))
    now, waiting = 1000.0, {"default/a", "default/b", "default/quiet"}
    clock = Clock(monotonic=lambda: now)

    async def own_image() -> str:
        return ""

    part = ScalingPods(api, lambda: view(cluster), waiting, lambda: CONFIG, own_image, clock)
    await part.round()
    made = {pod["metadata"]["name"]: pod for pod in cluster.list("Pod", NAMESPACE)}
    assert made.keys() == {"default-a", "default-b"}, "the third has no such condition"
    first = made["default-a"]
    assert first["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert tolerations[0] in first["spec"]["tolerations"]
    assert first["spec"]["schedulerName"] == "default-scheduler"
    (container,) = first["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": str(2**26), "nvidia.com/gpu": "1"}
    for pod in made.values():
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )

    # A node came and one scaling pod ran on it; it is deleted, and so is that of a pod that waits no more.
    cluster.add_nodes(1)
    cluster.patch("Pod", "default-a", {"status": {"phase": "Succeeded"}}, NAMESPACE, subresource="/status")
    waiting.discard("default/b")
    await part.round()
    assert list(cluster.list("Pod", NAMESPACE)) == []
    await part.round()
    assert list(cluster.list("Pod", NAMESPACE)) == [], "that node is being filled"
    now += 60.0
    await part.round()
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod", NAMESPACE)] == ["default-a"]
    cluster.delete("Pod", "a")
    await part.round()
    assert list(cluster.list("Pod", NAMESPACE)) == []
    await api.close()
    assert [one for one in own_plane.audit.since(mark, ACCOUNT) if one.status == 403] == []


def test_nodes_that_come_for_scaling_pods_take_the_pods_that_waited(cluster: Cluster, operator: StartOperator) -> None:
    """`kai-sched run`, from the first pod that waits to the last scaling pod that is gone."""
    folder = MANIFESTS / "components" / "node-scale-adjuster"
    files = [folder / "namespace.yaml", folder / "rbac.yaml"]
    cluster.add_namespace(SYSTEM_NAMESPACE)
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=1)
    sharing.turn_on(cluster)
    adjuster = {"service": {"enabled": True}, "args": {"scalingPodImage": {"name": "ends-at-once"}}}
    cluster.patch("Config", "kai-config", {"spec": {"nodeScaleAdjuster": adjuster}})
    with DevicePlugin(cluster):
        operator()
        cluster.create_all([sharing.pod(name, "0.6") for name in ("a", "b", "c")])

        def made() -> list[str]:
            found = [pod["metadata"]["name"] for pod in cluster.list("Pod", NAMESPACE)]
            assert len(found) == 2, f"{found}: two of three wait, as one node has a GPU"
            return found

        names_of = wait_until(made, "two scaling pods", 60.0)
        assert len(cluster.bound()) == 1
        assert {name.removeprefix("default-") for name in names_of} == set("abc") - cluster.bound().keys()
        # As an autoscaler does: nodes for what the scaling pods ask for.
        cluster.add_nodes(2, gpus=1, prefix="added")
        assert len(set(cluster.wait_bound(["a", "b", "c"]).values())) == 3
        wait_until(lambda: not cluster.list("Pod", NAMESPACE), "the scaling pods being gone", 60.0)
