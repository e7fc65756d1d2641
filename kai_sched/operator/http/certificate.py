"""The Secret with the webhook certificate: which replica writes it, how often it is checked, and how the webhook
configurations get to trust it.

Each certificate has an authority of its own. The key of the authority is discarded after signing. A renewed Secret
keeps the previous authority. A replica writes all authorities of the Secret into the webhook configurations before it
replaces a valid certificate. Only a replica without a valid certificate serves one that they do not trust yet. The
configurations are watched: until a new one trusts the certificate, the API server refuses the requests that match it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec
import structlog

from kai_sched.cluster.client import STRATEGIC, Api, ApiFailure
from kai_sched.cluster.paths import Path, object_path, objects_path, only
from kai_sched.cluster.reflector import Kind, Reflector, WatchSource
from kai_sched.operator.http.authority import RENEW_AFTER, Pair, age, issue, problem, service_name

SERVICE = "kai-sched-webhook"
SECRET = "kai-sched-webhook-tls"
MUTATING = ("mutating-kai-admission",)
VALIDATING = ("validating-kai-admission", "kai-queue-validation-v2", "kai-podgroup-validation-v2alpha2")

PERIOD_S = 60.0
RETRY_S = 2.0
SETTLED_S = 0.1  # changes seldom come alone
SETTLE = timedelta(seconds=30)  # until every API server trusts a new authority

_ADMISSION = "admissionregistration.k8s.io/v1"
_RESOURCES = {
    **dict.fromkeys(MUTATING, "mutatingwebhookconfigurations"),
    **dict.fromkeys(VALIDATING, "validatingwebhookconfigurations"),
}
_FIELDS = ("tls.crt", "tls.key", "ca.crt")

_log = structlog.get_logger("certificate")


def remedied(problem: str, namespace: str) -> str:
    """Return the problem, with the remedy if our own namespace is missing."""
    missing = f'namespaces "{namespace}" not found' in problem
    return f"{problem}: create it: kubectl create namespace {namespace}" if missing else problem


class _Changes:
    """The sink of the watches: only that there was a change counts."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def begin(self, kind: Kind) -> None: ...
    def item(self, kind: Kind, raw: msgspec.Raw) -> None: ...

    def finish(self, _kind: Kind) -> None:
        self._changed()

    def changed(self, _kind: Kind, _raw: msgspec.Raw) -> None:
        self._changed()

    def deleted(self, kind: Kind, raw: msgspec.Raw) -> None: ...


class CertificateManager:
    """Keeps the Secret, the webhook configurations and the served certificate in agreement; runs on every replica.

    Parameters
    ----------
    api
        The client of the API server.
    namespace
        The namespace of the Secret and of the webhook service.
    clock
        The wall clock.
    show
        Called with each certificate that is to be served.
    scheduler_name
        Returns the scheduler whose pods the webhooks have to ask for, empty while that is not known.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        clock: Callable[[], datetime],
        show: Callable[[Pair], None],
        scheduler_name: Callable[[], str] = lambda: "",
    ) -> None:
        self._api = api
        self._scheduler_name = scheduler_name
        self._warned: set[str] = set()  # configurations that were logged: they ask for the pods of another scheduler
        self._changed = asyncio.Event()
        self._namespace = namespace
        self._name = service_name(SERVICE, namespace)
        self._clock = clock
        self._show = show
        self._shown: Pair | None = None
        self._failure = ""

    def problem(self) -> str:
        """Return what is wrong with the certificate, or an empty string."""
        return self._failure

    def watches(self, rng: Random) -> list[Reflector]:
        """Return the watches that have to run beside ``run``, so that a new configuration is updated at once."""
        return [
            Reflector(self._api, _source(name, resource), _Changes(self._changed.set), rng)
            for name, resource in _RESOURCES.items()
        ]

    async def run(self, period_s: float = PERIOD_S, retry_s: float = RETRY_S) -> None:
        """Sync after each change, every ``period_s``, and after a failure every ``retry_s``, until cancelled."""
        while True:
            wait_s = period_s
            self._changed.clear()
            try:
                await self.sync()
                self._failure = ""
            except Exception as failure:  # whatever an object of that name contains
                text = str(failure) if isinstance(failure, ApiFailure) else f"{type(failure).__name__}: {failure}"
                text = remedied(text, self._namespace)
                if self._failure != text:
                    self._failure = text
                    _log.warning("certificate.failed", problem=text)
                wait_s = retry_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait_s)
                await asyncio.sleep(SETTLED_S)

    async def sync(self) -> None:
        """Create or renew the certificate if it is due, have it trusted, then serve it. Raises ApiFailure."""
        now = self._clock()
        pair = await self._current(now)
        if self._shown is None or problem(self._shown, self._name, now):
            self._use(pair, now)  # an untrusted certificate is better than none
        await self._trust(pair.authorities)
        if age(pair, now) >= SETTLE:
            self._use(pair, now)

    def _use(self, pair: Pair, now: datetime) -> None:
        if pair != self._shown:
            self._show(pair)
            self._shown = pair
            _log.info("certificate.shown", age_s=round(age(pair, now).total_seconds()))

    async def _current(self, now: datetime) -> Pair:
        """Return what the Secret holds once it is valid; another replica may have written it."""
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
            # Only the data changes: the type of a Secret, for example, cannot be changed.
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
        """Return whether it was written: False if another replica was faster."""
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
        """Write the authorities into every webhook configuration that exists."""
        bundle = base64.b64encode(authorities).decode()
        for name, resource in _RESOURCES.items():
            path = object_path(_ADMISSION, resource, "", name)
            try:
                configuration = msgspec.json.decode(await self._api.request("GET", path), type=dict)
            except ApiFailure as failure:
                if failure.status == 404:
                    continue
                raise
            self._warn(name, configuration)
            stale = [hook["name"] for hook in configuration.get("webhooks") or [] if self._is_stale(hook, bundle)]
            if stale:
                patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in stale]}
                body = msgspec.json.encode(patch)
                await self._api.request("PATCH", path, body=body, content_type=STRATEGIC, guarded=False)
                _log.info("certificate.trusted", configuration=name)

    def _warn(self, name: str, configuration: dict[str, Any]) -> None:
        """Warn if a configuration asks for the pods of another scheduler only: ours are not reviewed then."""
        conditions = [
            str(condition.get("expression"))
            for hook in configuration.get("webhooks") or []
            for condition in hook.get("matchConditions") or []
            if "spec.schedulerName ==" in str(condition.get("expression"))
        ]
        ours = self._scheduler_name()
        if ours and name not in self._warned and any(f"'{ours}'" not in text for text in conditions):
            self._warned.add(name)
            remedy = f"write {ours!r} into the matchConditions of manifests/webhooks.yaml and apply it"
            _log.warning("webhooks.other_scheduler", configuration=name, conditions=conditions, remedy=remedy)

    def _is_stale(self, hook: dict[str, Any], bundle: str) -> bool:
        client = hook["clientConfig"]
        service = client.get("service")
        ours = service is None or (service["name"], service["namespace"]) == (SERVICE, self._namespace)
        return ours and client.get("caBundle") != bundle


def _source(name: str, resource: str) -> WatchSource:
    """The watch of one configuration: RBAC does not let us see others."""
    kind = "MutatingWebhookConfiguration" if name in MUTATING else "ValidatingWebhookConfiguration"
    return WatchSource((_ADMISSION, kind), objects_path(_ADMISSION, resource), tuple(only(name).items()), optional=True)


def _pair(secret: dict[str, Any]) -> Pair:
    data = secret.get("data") or {}
    try:
        return Pair(*(base64.b64decode(data.get(field, "")) for field in _FIELDS))
    except binascii.Error:
        return Pair(b"", b"", b"")


def _data(pair: Pair) -> dict[str, str]:
    values = (pair.certificate, pair.key, pair.authorities)
    return {field: base64.b64encode(value).decode() for field, value in zip(_FIELDS, values, strict=True)}
