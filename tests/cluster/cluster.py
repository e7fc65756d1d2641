"""The cluster as the tests see it: the administrator's client with shorthands, and the way back to an empty cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.cluster import components, objects
from tests.cluster.client import KINDS, Client, Object, Refused, collection, parallel, path_to
from tests.cluster.processes import wait_until
from tests.tree import ROOT

Key = tuple[str, str, str]  # kind, namespace or "", name
CRDS = ROOT / "crds"
IN_EACH_NAMESPACE = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
MANY = 100  # pods that are deleted by one request rather than one by one


class Cluster(Client):
    """What tests do to a cluster and ask it. ``kubeconfig`` is the administrator's.

    ``controlled``: controllers run that fill each namespace, and empty it when it is deleted.
    """

    def __init__(
        self, server: str, token: str, authority: Path | None, kubeconfig: Path, controlled: bool = False
    ) -> None:
        super().__init__(server, token, authority)
        self.kubeconfig = kubeconfig
        self.controlled = controlled

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True, timeout_s: float = 120.0) -> str:
        """What kubectl prints. Raises AssertionError with what it complained about, unless `check` is false."""
        command = [str(components.program("kubernetes", "kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    # What there is

    def pod(self, name: str, namespace: str = "default") -> Object:
        """One pod. Raises Refused where it is absent."""
        return self.get("Pod", name, namespace)

    def bound(self, namespace: str = "default") -> dict[str, str]:
        """The pods of a namespace that are bound, and their nodes."""
        pods = self.list("Pod", namespace)
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    def wait_bound(self, pods: Iterable[str], namespace: str = "default", timeout_s: float = 60.0) -> dict[str, str]:
        """Wait until all these pods are bound, and return the nodes of all bound pods of the namespace."""
        wanted = set(pods)
        bound = self.bound

        def missing_none() -> dict[str, str]:
            nodes = bound(namespace)
            assert wanted <= nodes.keys(), f"{len(nodes)} bound, {sorted(wanted - nodes.keys())[:5]} not"
            return nodes

        return wait_until(missing_none, f"{len(wanted)} pods being bound", timeout_s, poll_s=0.1)

    def wait_condition(
        self, kind: str, name: str, condition: str, namespace: str = "default", timeout_s: float = 60.0, **facts: str
    ) -> Object:
        """Wait for a condition of an object with these fields, such as status="False", and return it."""

        def matches() -> Object:
            found = condition_of(self.get(kind, name, namespace), condition)
            assert found is not None, f"no condition {condition}"
            assert facts.items() <= found.items(), f"{found}"
            return found

        return wait_until(matches, f"condition {condition} of {kind} {name} with {facts}", timeout_s)

    def events(self, name: str, reason: str | None = None, namespace: str = "default") -> Sequence[Object]:
        """The events on an object, oldest first; with one reason where given."""
        found = self.list("Event", namespace, f"fieldSelector=involvedObject.name%3D{name}")
        return [event for event in found if reason is None or event["reason"] == reason]

    def wait_event(self, name: str, reason: str, namespace: str = "default", timeout_s: float = 60.0) -> Object:
        """Wait for an event on an object, and return the latest with that reason."""
        reasons = self.events

        def there() -> Object:
            found = reasons(name, namespace=namespace)
            matching = [event for event in found if event["reason"] == reason]
            assert matching, f"{sorted({event['reason'] for event in found})}"
            return matching[-1]

        return wait_until(there, f"an event {reason} on {name}", timeout_s)

    # What is put into it

    def add_nodes(self, count: int = 1, gpus: int = 8, prefix: str = "node", **fields: Any) -> list[str]:
        """Ready nodes NODE-0 and on, with nothing that keeps pods off; further fields as of objects.node."""
        found = [f"{prefix}-{n}" for n in range(count)]
        self.create_all(objects.node(name, gpus, **fields) for name in found)
        # Admission gives each new node the taint not-ready; the controller that takes it off is not there.
        parallel(lambda name: self.patch("Node", name, {"spec": {"taints": None}}), found)
        return found

    def add_namespace(self, name: str) -> str:
        """A namespace whose pods can be created: with the ServiceAccount that a controller would make."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        self.apply(account)
        return name

    def add_queues(self, *names: str, parent: str = "org", quota: float = -1, limit: float = -1) -> None:
        """Leaf queues that are alike, under a parent that is made as well."""
        self.apply(objects.queue(parent))
        for name in names:
            self.apply(objects.queue(name, parent, quota, limit))

    def add_crds(self) -> None:
        """All our CRDs, served when this returns."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(CRDS))
        names = sorted(path.stem for path in CRDS.glob("*.*.yaml"))
        self.kubectl("wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinition", *names)

    # The way back

    def everything(self) -> set[Key]:
        """All that the clean-up looks at, without the system's own namespaces."""
        found = parallel(self._listed, KINDS)
        return {key for keys in found for key in keys}

    def clear(self, keep: set[Key]) -> None:
        """Delete all but these, held or not, kind by kind in the order of KINDS, and put CRDs back."""

        def cleared() -> bool:
            gone = sorted(self.everything() - keep)
            for kind in KINDS:
                chosen = [key for key in gone if key[0] == kind]
                if kind == "Pod" and len(chosen) > MANY:
                    for namespace in sorted({namespace for _, namespace, _ in chosen}):
                        self.request("DELETE", collection("Pod", namespace), {"gracePeriodSeconds": 0})
                    chosen = [key for key in self._listed("Pod") if key not in keep]
                parallel(self._remove, chosen)
            if any(kind == "CustomResourceDefinition" for kind, _, _ in keep - self.everything()):
                self.add_crds()
            left = sorted(self.everything() - keep)
            assert not left, f"{len(left)}, the first {left[:5]}"
            return True

        wait_until(cleared, "an empty cluster", 60.0)

    def _listed(self, kind: str) -> list[Key]:
        try:
            items = self.list(kind)
        except Refused as refused:
            if refused.status == 404:  # its CRD is not there
                return []
            raise
        named = [(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items]
        return [
            (kind, namespace, name)
            for namespace, name in named
            if not namespace.startswith("kube-") and not (self.controlled and (kind, name) in IN_EACH_NAMESPACE)
        ]

    def _remove(self, key: Key) -> None:
        kind, namespace, name = key
        self.delete(kind, name, namespace, grace_s=0)
        try:
            if kind == "Namespace" and not self.controlled:  # what it held is gone, but nobody is there to let go of it
                self.request("PUT", path_to(kind, name) + "/finalize", {"metadata": {"name": name}, "spec": {}})
            elif kind == "CustomResourceDefinition":
                pass  # the API server lets go of it once its objects are gone: else they would be there again with it
            elif (left := self.find(kind, name, namespace)) and left["metadata"].get("finalizers"):
                self.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
        except Refused as refused:
            if refused.status not in (404, 409):
                raise


def condition_of(content: Object, kind: str) -> Object | None:
    """The condition of that type in an object's status, or None."""
    found = [one for one in content.get("status", {}).get("conditions") or [] if one["type"] == kind]
    return found[0] if found else None
