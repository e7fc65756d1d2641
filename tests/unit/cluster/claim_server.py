"""An API server with claims for devices and pods in memory: it refuses old versions, and fails as a test says."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

from kai_sched.cluster.client import ApiFailure
from tests.unit.cluster.scripted import failure

Object = dict[str, Any]
DEVICES = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}


class ClaimServer:
    """Claims and pods by "namespace/name".

    Attributes
    ----------
    answers
        For the next requests of a method: a failure, which is raised instead of what was asked, or a call that is made
        before it.
    asked
        Method and path of all requests.
    keeps_status
        Whether it keeps what pods are told of claims for extended resources.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.answers: dict[str, list[ApiFailure | Callable[[], None]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.version = 10
        self.watch: Callable[[str, Object], None] = lambda *_: None
        self.watch_deleted: Callable[[str], None] = lambda _: None
        self.keeps_status = True

    def add(self, name: str, **status: Any) -> Object:
        """A claim in the namespace ml; its uid is its name."""
        meta = {"name": name, "namespace": "ml", "uid": name}
        return self._store(f"ml/{name}", {"metadata": meta, "spec": {"devices": DEVICES}, "status": status})

    def change(self, name: str, **status: Any) -> None:
        """Somebody else writes the status."""
        before = self.claims[f"ml/{name}"]
        self._store(f"ml/{name}", {**before, "status": status})

    def reserved(self, name: str) -> list[str]:
        """The uids that the claim is reserved for."""
        return [each["uid"] for each in self.claims[f"ml/{name}"]["status"].get("reservedFor") or []]

    def devices(self, name: str) -> list[str]:
        """The devices that the claim has."""
        allocation = self.claims[f"ml/{name}"]["status"].get("allocation") or {"devices": {"results": []}}
        return [each["device"] for each in allocation["devices"]["results"]]

    async def request(self, method: str, path: str, *, body: bytes | None = None, content_type: str = "") -> bytes:
        self.asked.append((method, path))
        await asyncio.sleep(0)
        waiting = self.answers.get(method)
        answer = waiting.pop(0) if waiting else None
        if isinstance(answer, ApiFailure):
            raise answer
        if answer is not None:
            answer()
        parts = path.split("/namespaces/")[1].split("/")
        if method == "POST":
            return self._create(f"{parts[0]}/", json.loads(body or b""))
        key, part = f"{parts[0]}/{parts[2]}", "/".join(parts[3:])
        known = self.pods if parts[1] == "pods" else self.claims
        if key not in known:
            raise failure(404, "NotFound")
        if method == "GET":
            return json.dumps(known[key]).encode()
        if method == "PATCH":
            return self._patch(self.pods[key], json.loads(body or b""), content_type)
        if method == "DELETE":
            return self._delete(key, json.loads(body or b""))
        sent, before = json.loads(body or b""), self.claims[key]
        if sent["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise failure(409, "Conflict")
        assert sent["spec"] == before["spec"]
        after = copy.deepcopy(before)
        if part == "status":
            after["status"] = sent["status"]
            allocation, reserved = after["status"].get("allocation"), after["status"].get("reservedFor") or []
            assert allocation or not reserved
            assert len(reserved) <= 256
            old = before["status"].get("allocation")
            assert not (old and allocation) or old == allocation
        else:
            after["metadata"]["finalizers"] = sent["metadata"]["finalizers"]
        return json.dumps(self._store(key, after)).encode()

    def _create(self, prefix: str, sent: Object) -> bytes:
        key = prefix + sent["metadata"]["name"]
        if key in self.claims:
            raise failure(409, "AlreadyExists")
        claim = {**sent, "metadata": {**sent["metadata"], "uid": f"made-{self.version}"}, "status": {}}
        return json.dumps(self._store(key, claim)).encode()

    def _patch(self, pod: Object, sent: Object, content_type: str) -> bytes:
        assert content_type == "application/merge-patch+json"
        if sent["metadata"]["uid"] != pod["metadata"]["uid"]:
            raise failure(409, "Conflict")
        if self.keeps_status:
            status = {**pod.get("status", {}), **sent["status"]}
            pod["status"] = {name: value for name, value in status.items() if value is not None}
        return json.dumps(pod).encode()

    def _delete(self, key: str, sent: Object) -> bytes:
        claim = self.claims[key]
        if sent["preconditions"]["uid"] != claim["metadata"]["uid"]:
            raise failure(409, "Conflict")
        assert not claim["metadata"].get("finalizers")
        del self.claims[key]
        self.version += 1
        self.watch_deleted(key)
        return b"{}"

    def _store(self, key: str, claim: Object) -> Object:
        self.version += 1
        stored = copy.deepcopy(claim)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.claims[key] = stored
        self.watch(key, stored)
        return stored
