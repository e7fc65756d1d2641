"""The part of an API server that keeps Secrets and webhook configurations, in memory."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.operator.http.authority import Pair

NAMESPACE = "kai-scheduler"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
SECRET = f"{SECRETS}/kai-sched-webhook-tls"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
QUEUES = f"{ADMISSION}/validatingwebhookconfigurations/kai-queue-validation-v2"
PODS = f"{ADMISSION}/mutatingwebhookconfigurations/mutating-kai-admission"


def failure(method: str, path: str, status: int, reason: str) -> ApiFailure:
    return ApiFailure(method, path, status, reason, "as told", None)


def webhook(name: str, service: str = "kai-sched-webhook", namespace: str = NAMESPACE) -> dict[str, Any]:
    client = {"service": {"name": service, "namespace": namespace, "path": "/validate"}}
    return {"name": name, "clientConfig": client, "failurePolicy": "Fail"}


class Server:
    """``objects`` by path. ``before`` is called ahead of each request and may raise or change something."""

    def __init__(self, objects: Mapping[str, dict[str, Any]]) -> None:
        self.objects = dict(objects)
        self.requests: list[tuple[str, str]] = []
        self.guarded: list[bool] = []
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self._versions = 0

    def api(self) -> Api:
        return cast(Api, self)

    def pair(self) -> Pair:
        """What the Secret holds."""
        data = self.objects[SECRET]["data"]
        return Pair(*(base64.b64decode(data[field]) for field in ("tls.crt", "tls.key", "ca.crt")))

    def bundles(self, path: str) -> dict[str, bytes]:
        """What each webhook of a configuration trusts."""
        hooks = self.objects[path]["webhooks"]
        return {hook["name"]: base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks}

    def put(self, path: str, thing: dict[str, Any]) -> None:
        self._versions += 1
        self.objects[path] = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self._versions)}}

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = "application/json",
        guarded: bool = True,
    ) -> bytes:
        self.before(method, path)
        self.requests.append((method, path))
        if method != "GET":
            self.guarded.append(guarded)
        if method == "POST":
            return self._create(path, json.loads(body))
        if path not in self.objects:
            raise failure(method, path, 404, "NotFound")
        if method == "PUT":
            self._update(path, json.loads(body))
        elif method == "PATCH":
            assert content_type == "application/strategic-merge-patch+json"
            self._patch(path, json.loads(body))
        return json.dumps(self.objects[path]).encode()

    def _create(self, folder: str, thing: dict[str, Any]) -> bytes:
        path = f"{folder}/{thing['metadata']['name']}"
        if path in self.objects:
            raise failure("POST", folder, 409, "AlreadyExists")
        self.put(path, thing)
        return json.dumps(self.objects[path]).encode()

    def _update(self, path: str, thing: dict[str, Any]) -> None:
        old = self.objects[path]
        if old["metadata"]["resourceVersion"] != thing["metadata"]["resourceVersion"]:
            raise failure("PUT", path, 409, "Conflict")
        if old["type"] != thing["type"]:
            raise failure("PUT", path, 422, "Invalid")
        self.put(path, thing)

    def _patch(self, path: str, patch: dict[str, Any]) -> None:
        hooks = {hook["name"]: hook for hook in self.objects[path]["webhooks"]}
        for change in patch["webhooks"]:
            hooks[change["name"]]["clientConfig"].update(change["clientConfig"])
