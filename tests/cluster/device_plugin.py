"""The kubelets' part in GPU sharing: each reservation pod gets a free device of its node, and says which one.

kwok lets pods run, but knows of no devices. A node has as many devices as GPUs; a pod with whole GPUs takes as many.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import urllib3

from kai_sched.api import names
from tests.cluster.client import Client, Object, Refused, parallel, path_to
from tests.cluster.objects import GPU

NAMESPACE = "kai-resource-reservation"
POLL_S = 0.05
FEW_NODES = 8
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
        """All nodes at once, as each has a kubelet of its own: some hundred reservation pods may come in a second."""
        reservations = [pod for pod in self.client.list("Pod", NAMESPACE) if pod["spec"].get("nodeName")]
        leaving = [pod for pod in reservations if pod["metadata"].get("deletionTimestamp")]
        if self._ends_pods and leaving:
            parallel(self._end, leaving)
        waiting = defaultdict(list)
        for pod in reservations:
            is_done = pod["metadata"].get("deletionTimestamp") or pod["status"].get("phase") == "Failed"
            if not is_done and not device_of(pod) and pod["spec"]["nodeName"] not in self.mute:
                waiting[pod["spec"]["nodeName"]].append(pod)
        if waiting:
            free = self._free(set(waiting))
            parallel(lambda name: self._give(waiting[name], free[name]), sorted(waiting.keys() & free.keys()))

    def _give(self, waiting: list[Object], devices: list[str]) -> None:
        """The pods of a node that wait get the devices that are free, in turn; those for which none is left fail."""
        for pod in waiting:
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

    def _free(self, nodes: set[str]) -> dict[str, list[str]]:
        """The devices that no pod has of each of these nodes that is there. Whole-GPU pods have the last ones."""
        taken: dict[str, set[str]] = defaultdict(set)
        whole: Counter[str] = Counter()
        for pod in self._pods_on(nodes):
            node = pod["spec"].get("nodeName")
            if node not in nodes or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            if pod["metadata"]["namespace"] == NAMESPACE:
                taken[node].add(device_of(pod))
            else:
                limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
                whole[node] += int(limits.get(GPU, 0))
        found = {}
        for each in self.client.list("Node"):
            name, count = each["metadata"]["name"], int(each["status"]["allocatable"].get(GPU, 0))
            if name in nodes:
                left = [device for device in (f"GPU-{name}-{n}" for n in range(count)) if device not in taken[name]]
                found[name] = left[: max(0, len(left) - whole[name])]
        return found

    def _pods_on(self, nodes: set[str]) -> Sequence[Object]:
        """All pods of these nodes, and of others where there are many."""
        if len(nodes) > FEW_NODES:
            return self.client.list("Pod")
        lists = parallel(lambda name: self.client.list("Pod", query=f"fieldSelector=spec.nodeName%3D{name}"), nodes)
        return list(chain.from_iterable(lists))


def device_of(pod: Object) -> str:
    """The device that the reservation pod says it has; "" for none."""
    found: str = (pod["metadata"].get("annotations") or {}).get(names.RESERVED_DEVICE_ANNOTATION, "")
    return found
