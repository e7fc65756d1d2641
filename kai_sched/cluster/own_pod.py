"""The pod that this process runs in: its annotations, read and written with its service account.

For programs that run in many pods and do nothing else. So it uses the standard library: the client of the operator
takes five times the memory, and a second to import.
"""

from __future__ import annotations

import os
import pathlib
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError

import msgspec

from kai_sched.cluster import paths
from kai_sched.cluster.failure import ApiFailure, read, refused

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
MERGE = "application/merge-patch+json"
ANSWER_S = 10.0


class _OwnPodMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _OwnPodAnswer(msgspec.Struct):
    metadata: _OwnPodMeta = msgspec.field(default_factory=_OwnPodMeta)


_decode = msgspec.json.Decoder(_OwnPodAnswer).decode


@dataclass(frozen=True, slots=True)
class OwnPod:
    """The pod "namespace/name". ``account`` is the folder with the token and the certificate of the authority."""

    key: str
    server: str
    account: pathlib.Path

    @classmethod
    def here(cls, key: str, environment: Mapping[str, str] = os.environ, account: str = ACCOUNT_FOLDER) -> OwnPod:
        """The pod of this name at the API server that the kubelet names. Raises ValueError outside of a cluster."""
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ValueError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: run it in a pod")
        return cls(key, f"https://{f'[{host}]' if ':' in host else host}:{port}", pathlib.Path(account))

    def annotations(self) -> dict[str, str]:
        """Read them. Raises ApiFailure."""
        path = paths.pod_path(self.key)
        return read(_decode, self._send("GET", path), path, "the pod").metadata.annotations or {}

    def annotate(self, name: str, value: str) -> None:
        """Set one of them. Raises ApiFailure."""
        body = msgspec.json.encode({"metadata": {"annotations": {name: value}}})
        self._send("PATCH", paths.pod_path(self.key), body)

    def _send(self, verb: str, path: paths.Path, body: bytes | None = None) -> bytes:
        try:
            # Kubernetes renews the token in the file, so it is read each time.
            token = (self.account / "token").read_text().strip()
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as cluster.login does
            headers = {"Authorization": f"Bearer {token}", **({"Content-Type": MERGE} if body else {})}
            request = urllib.request.Request(f"{self.server}{path}", body, headers, method=verb)
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_S, context=context) as answer:
                    found: bytes = answer.read()
                    return found
            except HTTPError as error:
                phrase = HTTPStatus(error.code).phrase if error.code in set(HTTPStatus) else ""
                after = error.headers.get("Retry-After") or ""
                raise refused(verb, path, error.code, phrase, after, error.read(), "") from None
        except (OSError, HTTPException) as error:
            raise ApiFailure(verb, path, 0, "NoAnswer", str(error)) from error
