"""A small synchronous client for the tests, on its own connections, and none of the code under test in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import urllib3
from urllib3.util import Retry

from kai_sched.api import names

Object = dict[str, Any]
T = TypeVar("T")

CONNECTIONS = 16
# 429 is how the API server says that it has only just started to serve a kind; all else is for the test to see.
PATIENCE = Retry(None, connect=0, read=0, redirect=0, other=0, status=30, status_forcelist=[429], allowed_methods=None)
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

ADMISSION = "admissionregistration.k8s.io/v1"
# kind: API version, name in paths, whether it lies in a namespace. The clean-up goes through them in this order.
KINDS: dict[str, tuple[str, str, bool]] = {
    "ValidatingWebhookConfiguration": (ADMISSION, "validatingwebhookconfigurations", False),
    "MutatingWebhookConfiguration": (ADMISSION, "mutatingwebhookconfigurations", False),
    "ValidatingAdmissionPolicyBinding": (ADMISSION, "validatingadmissionpolicybindings", False),
    "ValidatingAdmissionPolicy": (ADMISSION, "validatingadmissionpolicies", False),
    "RayService": ("ray.io/v1", "rayservices", True),
    "RayJob": ("ray.io/v1", "rayjobs", True),
    "RayCluster": ("ray.io/v1", "rayclusters", True),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets", True),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderworkersets", True),
    "CronJob": ("batch/v1", "cronjobs", True),
    "StatefulSet": ("apps/v1", "statefulsets", True),
    "ResourceQuota": ("v1", "resourcequotas", True),
    "Deployment": ("apps/v1", "deployments", True),
    "ReplicaSet": ("apps/v1", "replicasets", True),
    "Job": ("batch/v1", "jobs", True),
    "ControllerRevision": ("apps/v1", "controllerrevisions", True),
    "Pod": ("v1", "pods", True),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets", True),
    "BindRequest": (names.BIND_REQUEST_VERSION, "bindrequests", True),
    "PodGroup": (names.POD_GROUP_VERSION, "podgroups", True),
    "ResourceClaim": (names.DRA_VERSION, "resourceclaims", True),
    "ResourceClaimTemplate": (names.DRA_VERSION, "resourceclaimtemplates", True),
    "ResourceSlice": (names.DRA_VERSION, "resourceslices", False),
    "DeviceClass": (names.DRA_VERSION, "deviceclasses", False),
    "DeviceTaintRule": (names.DRA_TAINT_VERSION, "devicetaintrules", False),
    "PersistentVolumeClaim": ("v1", "persistentvolumeclaims", True),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies", True),
    "Service": ("v1", "services", True),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices", True),
    "Endpoints": ("v1", "endpoints", True),
    "Secret": ("v1", "secrets", True),
    "ConfigMap": ("v1", "configmaps", True),
    "Lease": ("coordination.k8s.io/v1", "leases", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "Event": ("v1", "events", True),
    "Queue": (names.QUEUE_VERSION, "queues", False),
    "Topology": (names.TOPOLOGY_VERSION, "topologies", False),
    "SchedulingShard": (names.CONFIG_VERSION, "schedulingshards", False),
    "Config": (names.CONFIG_VERSION, "configs", False),
    "Node": ("v1", "nodes", False),
    "PersistentVolume": ("v1", "persistentvolumes", False),
    "StorageClass": ("storage.k8s.io/v1", "storageclasses", False),
    "CSINode": ("storage.k8s.io/v1", "csinodes", False),
    "CSIDriver": ("storage.k8s.io/v1", "csidrivers", False),
    "CSIStorageCapacity": ("storage.k8s.io/v1", "csistoragecapacities", True),
    "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "Namespace": ("v1", "namespaces", False),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", "customresourcedefinitions", False),
}


@dataclass
class Refused(Exception):
    """The API server's answer was no. ``status`` is the HTTP code."""

    status: int
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"


def collection(kind: str, namespace: str | None = None) -> str:
    """The path of all objects of a kind, of one namespace or of all."""
    version, plural, namespaced = KINDS[kind]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespaced and namespace else f"{root}/{plural}"


def path_to(kind: str, name: str, namespace: str = "default") -> str:
    """The path of one object. The namespace counts only where the kind lies in one."""
    return f"{collection(kind, namespace)}/{name}"


def parallel(function: Callable[..., T], items: Iterable[Any]) -> list[T]:
    """The function of each item, many at once, results in the order of the items."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return list(pool.map(function, items))


class Client:
    """Requests to one API server with one bearer token; may be used by several threads."""

    def __init__(self, server: str, token: str, authority: Path | None) -> None:
        self.server = server
        self.token = token
        self.authority = authority
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS, ca_certs=str(authority) if authority else None, timeout=60.0, retries=PATIENCE
        )

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        """The decoded answer; text that is not JSON comes as {"text": ...}. Raises Refused, urllib3's HTTPError."""
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, **(headers or {})}
        data = None if body is None else json.dumps(body)
        answer = self._pool.request(method, self.server + path, body=data, headers=sent)
        try:
            content = json.loads(answer.data) if answer.data else {}
        except ValueError:
            content = {"text": answer.data.decode(errors="replace")}
        if answer.status >= 400:
            raise Refused(answer.status, content.get("reason", ""), content.get("message", content.get("text", "")))
        return content

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        """One object. Raises Refused with status 404 where it is absent."""
        return self.request("GET", path_to(kind, name, namespace))

    def find(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        """One object, or None."""
        try:
            return self.get(kind, name, namespace)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, query: str = "") -> Sequence[Object]:
        """All objects of a kind, of one namespace or of all; `query` as in a URL, such as "labelSelector=a%3Db"."""
        items: Sequence[Object] = self.request("GET", f"{collection(kind, namespace)}?{query}")["items"]
        return items

    def create(self, content: Object) -> Object:
        """Create one object; one that lies in a namespace and names none goes to default."""
        kind, meta = content["kind"], content["metadata"]
        return self.request("POST", collection(kind, meta.get("namespace", "default")), content)

    def create_all(self, contents: Iterable[Object]) -> Sequence[Object]:
        """Create objects of any kinds, many at once."""
        return parallel(self.create, contents)

    def apply(self, content: Object, subresource: str = "", manager: str = "tests") -> Object:
        """Server-side apply, by force."""
        meta = content["metadata"]
        path = path_to(content["kind"], meta["name"], meta.get("namespace", "default")) + subresource
        return self.request("PATCH", f"{path}?fieldManager={manager}&force=true", content, APPLY)

    def patch(
        self, kind: str, name: str, change: object, namespace: str = "default", subresource: str = "", how: str = MERGE
    ) -> Object:
        """Patch one object; the subresource is such as "/status"."""
        return self.request("PATCH", path_to(kind, name, namespace) + subresource, change, how)

    def delete(self, kind: str, name: str, namespace: str = "default", grace_s: int | None = None) -> None:
        """Delete one object; nothing where it is absent already."""
        options = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        try:
            self.request("DELETE", path_to(kind, name, namespace), options)
        except Refused as refused:
            if refused.status != 404:
                raise

    def bind(self, pod: Object, node: str) -> None:
        """Bind a pod by hand, as a scheduler does."""
        meta = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.request("POST", path_to("Pod", meta["name"], meta["namespace"]) + "/binding", binding)
