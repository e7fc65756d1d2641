"""GPU sharing with the rights of manifests/ and of its component, and no more."""

from __future__ import annotations

from kai_sched.api import names
from tests.cluster import objects, sharing
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, StartOperator
from tests.cluster.control_plane import ControlPlane
from tests.cluster.device_plugin import DevicePlugin, device_of
from tests.cluster.installed import MANIFESTS
from tests.cluster.processes import wait_until

SHARING = MANIFESTS / "components" / "gpu-sharing"


def test_sharing_needs_the_rights_of_its_component_and_no_others(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    files = [MANIFESTS / "namespace.yaml", MANIFESTS / "rbac.yaml", SHARING / "namespace.yaml", SHARING / "rbac.yaml"]
    files += [MANIFESTS / "policies.yaml", SHARING / "policies.yaml", SHARING / "config.yaml"]
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    mark = own_plane.audit.mark()
    cluster.add_queues("team")
    cluster.add_nodes(1, gpus=1)
    sharing.turn_on(cluster)
    with DevicePlugin(cluster):
        kubeconfig = own_plane.kubeconfig(SERVICE_ACCOUNT, token=token)
        first = operator(kubeconfig=kubeconfig)
        # A map that is there already, as of an earlier attempt, is overwritten.
        meta = objects.meta("b-maps-0", "default", labels={names.SHARED_GPU_LABEL: "true"})
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        cluster.create_all([sharing.pod("a"), sharing.pod("b")])
        cluster.wait_bound(["a", "b"])
        assert sharing.visible(cluster, "a") == sharing.visible(cluster, "b")
        [held] = sharing.reservations(cluster)
        assert held["spec"]["serviceAccountName"] == "kai-resource-reservation"
        (container,) = held["spec"]["containers"]
        assert held["spec"]["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["limits"] == {"memory": "96Mi", "nvidia.com/gpu": "1"}
        # It is gone when the next replica starts, and another one has to get the device that the pods were told.
        first.kill()
        cluster.delete("Pod", held["metadata"]["name"], held["metadata"]["namespace"])
        operator(kubeconfig=kubeconfig)

        def made_again() -> bool:
            found = sharing.reservations(cluster)
            return any(pod["metadata"]["uid"] != held["metadata"]["uid"] and device_of(pod) for pod in found)

        wait_until(made_again, "the device being reserved again", 60.0)
        cluster.delete("Pod", "a")
        cluster.delete("Pod", "b")
        wait_until(lambda: not sharing.reservations(cluster), "the device being free again")
    asked = own_plane.audit.since(mark, ACCOUNT)
    assert [(one.verb, one.subject, one.name) for one in asked if one.status == 403] == []
    used = {(one.verb, one.subject) for one in asked if one.is_write or one.verb == "get"}
    of_component = {
        (verb, subject)
        for kind, namespace in (("ClusterRole", ""), ("Role", held["metadata"]["namespace"]))
        for rule in cluster.get(kind, "kai-scheduler-gpu-sharing", namespace)["rules"]
        for verb in rule["verbs"]
        for subject in rule["resources"]
    }
    assert of_component - used == set(), "nobody needs these"
