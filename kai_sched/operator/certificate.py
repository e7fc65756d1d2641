"""One certificate for the webhooks of all replicas. The Secret is the truth; whoever comes first writes it.

Each certificate has an authority of its own, whose key is thrown away once it has signed. A renewed Secret keeps the
authority before, and each replica sees to it that the webhook configurations trust all that the Secret lists before
it shows a new certificate. So whichever replica is first, none shows what is not trusted yet.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from kai_sched.cluster.client import STRATEGIC, Api, ApiFailure
from kai_sched.cluster.paths import Path, object_path, objects_path
from kai_sched.operator.authority import RENEW_AFTER, Pair, age, issue, problem, service_name

SERVICE = "kai-sched-webhook"
SECRET = "kai-sched-webhook-tls"
MUTATING = ("mutating-kai-admission",)
VALIDATING = ("validating-kai-admission", "kai-queue-validation-v2", "kai-podgroup-validation-v2alpha2")

PERIOD_S = 60.0
RETRY_S = 2.0
SETTLE = timedelta(seconds=30)  # in which each API server has heard of an authority and meets what it signed

_ADMISSION = "admissionregistration.k8s.io/v1"
_CONFIGURATIONS = (
    *(object_path(_ADMISSION, "mutatingwebhookconfigurations", "", name) for name in MUTATING),
    *(object_path(_ADMISSION, "validatingwebhookconfigurations", "", name) for name in VALIDATING),
)
_FIELDS = ("tls.crt", "tls.key", "ca.crt")

_log = structlog.get_logger()


class Keeper:
    """Keeps the Secret, the webhook configurations and what ``show`` was given in agreement; runs on every replica."""

    def __init__(self, api: Api, namespace: str, clock: Callable[[], datetime], show: Callable[[Pair], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._name = service_name(SERVICE, namespace)
        self._clock = clock
        self._show = show
        self._shown: Pair | None = None
        self._failure = ""

    def problem(self) -> str:
        """What is wrong with the certificate, in a sentence; empty where nothing is."""
        return self._failure

    async def run(self, period_s: float = PERIOD_S, retry_s: float = RETRY_S) -> None:
        """Look every ``period_s``, and after a failure every ``retry_s``, until it is cancelled."""
        while True:
            try:
                await self.sync()
            except ApiFailure as failure:
                if self._failure != str(failure):
                    self._failure = str(failure)
                    _log.warning("certificate.failed", problem=self._failure)
                await asyncio.sleep(retry_s)
            else:
                self._failure = ""
                await asyncio.sleep(period_s)

    async def sync(self) -> None:
        """Look once: make or renew the certificate where it is due, have it trusted, show it. Raises ApiFailure."""
        now = self._clock()
        pair = await self._current(now)
        if self._shown is None or problem(self._shown, self._name, now):
            self._use(pair, now)  # nothing is worse than to have nothing to show
        await self._trust(pair.authorities)
        if age(pair, now) >= SETTLE:
            self._use(pair, now)

    def _use(self, pair: Pair, now: datetime) -> None:
        if pair != self._shown:
            self._show(pair)
            self._shown = pair
            _log.info("certificate.shown", age_s=round(age(pair, now).total_seconds()))

    async def _current(self, now: datetime) -> Pair:
        """What the Secret holds once it is good; another replica may have written it."""
        while True:
            secret = await self._read()
            if secret is None:
                pair = issue(self._name, now)
                if await self._write("POST", objects_path("v1", "secrets", self._namespace), self._new(pair)):
                    _log.info("certificate.created", secret=f"{self._namespace}/{SECRET}")
                    return pair
                continue
            pair = _pair(secret)
            wrong = problem(pair, self._name, now)
            if not wrong and age(pair, now) < RENEW_AFTER:
                return pair
            pair = issue(self._name, now, pair.authorities)
            # All but the data stays: the type of a Secret, for one, cannot be changed.
            if await self._write(
                "PUT", object_path("v1", "secrets", self._namespace, SECRET), {**secret, "data": _data(pair)}
            ):
                _log.info("certificate.renewed", secret=f"{self._namespace}/{SECRET}", was=wrong or "due")
                return pair

    async def _read(self) -> dict[str, Any] | None:
        try:
            return msgspec.json.decode(
                await self._api.request("GET", object_path("v1", "secrets", self._namespace, SECRET)), type=dict
            )
        except ApiFailure as failure:
            if failure.status != 404:
                raise
            return None

    async def _write(self, method: str, path: Path, secret: dict[str, Any]) -> bool:
        """Whether it was written: False where another replica was faster."""
        try:
            # Every replica serves the webhooks, so every replica may write this.
            await self._api.request(method, path, body=msgspec.json.encode(secret), guarded=False)
        except ApiFailure as failure:
            if failure.status == 409 or (method == "PUT" and failure.status == 404):
                return False
            raise
        return True

    def _new(self, pair: Pair) -> dict[str, Any]:
        meta = {"name": SECRET, "namespace": self._namespace}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "type": "kubernetes.io/tls",
            "data": _data(pair),
        }

    async def _trust(self, authorities: bytes) -> None:
        """Have the authorities in every webhook configuration that is there."""
        bundle = base64.b64encode(authorities).decode()
        for path in _CONFIGURATIONS:
            try:
                configuration = msgspec.json.decode(await self._api.request("GET", path), type=dict)
            except ApiFailure as failure:
                if failure.status == 404:
                    continue
                raise
            stale = [hook["name"] for hook in configuration.get("webhooks") or [] if self._is_stale(hook, bundle)]
            if stale:
                patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in stale]}
                content_type = STRATEGIC
                body = msgspec.json.encode(patch)
                await self._api.request("PATCH", path, body=body, content_type=content_type, guarded=False)

    def _is_stale(self, hook: dict[str, Any], bundle: str) -> bool:
        client = hook["clientConfig"]
        service = client.get("service")
        ours = service is None or (service["name"], service["namespace"]) == (SERVICE, self._namespace)
        return ours and client.get("caBundle") != bundle


def _pair(secret: dict[str, Any]) -> Pair:
    data = secret.get("data") or {}
    try:
        return Pair(*(base64.b64decode(data.get(field, "")) for field in _FIELDS))
    except binascii.Error:
        return Pair(b"", b"", b"")


def _data(pair: Pair) -> dict[str, str]:
    values = (pair.certificate, pair.key, pair.authorities)
    return {field: base64.b64encode(value).decode() for field, value in zip(_FIELDS, values, strict=True)}
