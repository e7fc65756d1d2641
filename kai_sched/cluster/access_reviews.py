"""Who sent a token, and whether that user may read the page: TokenReview and SubjectAccessReview of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kai_sched.api import core
from kai_sched.cluster.client import Api
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import objects_path

_TOKENS = ("authentication.k8s.io/v1", "tokenreviews", "TokenReview")
_ACCESS = ("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")


class _User(core.Wire):
    username: str = ""
    uid: str = ""
    groups: list[str] = msgspec.field(default_factory=list)
    extra: dict[str, list[str]] = msgspec.field(default_factory=dict)


class _TokenStatus(core.Wire):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(core.Wire):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(core.Wire):
    allowed: bool = False


class _AccessReview(core.Wire):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_decode_token = msgspec.json.Decoder(_TokenReview).decode
_decode_access = msgspec.json.Decoder(_AccessReview).decode


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A user as the API server knows it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = field(default_factory=dict)


class AccessReviews:
    """For one event loop. Both methods raise ApiFailure.

    Nothing is stored by such a review, so standby replicas send them, too, and a missing right keeps nobody from
    scheduling.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def user_of(self, token: str) -> AuthenticatedUser | None:
        """The user that the token belongs to; None for a token that is not valid."""
        found = read(_decode_token, await self._post(_TOKENS, {"token": token}), objects_path(*_TOKENS[:2]), "a review")
        user = found.status.user
        if not found.status.authenticated or not user.username:
            return None
        return AuthenticatedUser(user.username, user.uid, tuple(user.groups), user.extra)

    async def may_get(self, user: AuthenticatedUser, path: str) -> bool:
        """Whether the user has the verb get on this path, which is no path of a resource."""
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": dict(user.extra),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        answer = await self._post(_ACCESS, spec)
        return read(_decode_access, answer, objects_path(*_ACCESS[:2]), "a review").status.allowed

    async def _post(self, kind: tuple[str, str, str], spec: object) -> bytes:
        version, resource, name = kind
        body = msgspec.json.encode({"apiVersion": version, "kind": name, "spec": spec})
        path = objects_path(version, resource)
        return await self._api.request("POST", path, body=body, guarded=False, needs_right=False)
