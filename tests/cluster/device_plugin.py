"""The kubelets' part in GPU sharing: each reservation pod gets a free device of its node, and says which one.

kwok lets pods run, but knows of no devices. A node has as many devices as GPUs; a pod with whole GPUs takes as many.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import urllib3

from kai_sched.api import names
from tests.cluster.client import Client, Object, Refused, path_to
from tests.cluster.objects import GPU

NAMESPACE = "kai-resource-reservation"
POLL_S = 0.05
GONE = (404, 409)  # the pod has gone meanwhile, or another one has its name
REFUSED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device is free"}


class DevicePlugin:
    """Use it as a context. ``mute``: nodes whose reservation pods get no device and say nothing.

    Where the API server cannot be reached it tries again, as kubelets do. ``ends_pods``: it deletes reservation pods
    that are to end, each by its UID, as kubelets do. kwok goes by the name, and a request of its that comes late ends
    the next pod of that name.
    """

    def __init__(self, client: Client, poll_s: float = POLL_S, ends_pods: bool = False) -> None:
        self.client = client
        self._ends_pods = ends_pods
        self._poll_s = poll_s
        self.mute: set[str] = set()
        self.failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-plugin", daemon=True)

    def __enter__(self) -> DevicePlugin:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10.0)
        self.check()

    def check(self) -> None:
        """Raise AssertionError with what ended it, if something did."""
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            while not self._ended.wait(self._poll_s):
                try:
                    self._look()
                except urllib3.exceptions.HTTPError:
                    continue
                except Refused as refused:
                    if refused.status < 500:
                        raise
        except BaseException as failure:
            self.failure = failure

    def _look(self) -> None:
        reservations = list(self._reservations())
        for pod in reservations:
            if self._ends_pods and pod["metadata"].get("deletionTimestamp"):
                self._end(pod)
        waiting = [pod for pod in reservations if not device_of(pod) and pod["status"].get("phase") != "Failed"]
        if not waiting:
            return
        free = {name: self._free(name) for name in {pod["spec"]["nodeName"] for pod in waiting}}
        for pod in waiting:
            node = pod["spec"]["nodeName"]
            devices = free[node]
            if node in self.mute or devices is None or pod["metadata"].get("deletionTimestamp"):
                continue
            name, same = pod["metadata"]["name"], {"uid": pod["metadata"]["uid"]}
            try:
                if devices:
                    note = {"annotations": {names.RESERVED_DEVICE_ANNOTATION: devices.pop(0)}}
                    self.client.patch("Pod", name, {"metadata": same | note}, NAMESPACE)
                else:
                    self.client.patch("Pod", name, {"metadata": same, "status": REFUSED}, NAMESPACE, "/status")
            except Refused as refused:
                # Another one of its name came while it was asked: then its uid would have to change.
                other = refused.status == 422 and "metadata.uid" in str(refused) and "immutable" in str(refused)
                if refused.status not in GONE and not other:
                    raise

    def _end(self, pod: Object) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        try:
            self.client.request("DELETE", path_to("Pod", pod["metadata"]["name"], NAMESPACE), options)
        except Refused as refused:
            if refused.status not in GONE:
                raise

    def _reservations(self) -> Iterator[Object]:
        return (pod for pod in self.client.list("Pod", NAMESPACE) if pod["spec"].get("nodeName"))

    def _free(self, node: str) -> list[str] | None:
        """The devices of the node that no pod has; None where the node is gone. Whole-GPU pods have the last ones."""
        found = self.client.find("Node", node)
        if found is None:
            return None
        whole, taken = 0, set()
        for pod in self.client.list("Pod", query=f"fieldSelector=spec.nodeName%3D{node}"):
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            if pod["metadata"]["namespace"] == NAMESPACE:
                taken.add(device_of(pod))
            else:
                limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
                whole += int(limits.get(GPU, 0))
        devices = [f"GPU-{node}-{n}" for n in range(int(found["status"]["allocatable"].get(GPU, 0)))]
        left = [device for device in devices if device not in taken]
        return left[: len(left) - whole] if whole else left


def device_of(pod: Object) -> str:
    """The device that the reservation pod says it has; "" for none."""
    found: str = (pod["metadata"].get("annotations") or {}).get(names.RESERVED_DEVICE_ANNOTATION, "")
    return found
