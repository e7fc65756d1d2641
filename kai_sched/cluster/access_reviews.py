"""Reviews by the API server: who sent a token, what that user may read, and what the account of this process may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from kai_sched.api import core
from kai_sched.cluster.client import Api
from kai_sched.cluster.failure import read
from kai_sched.cluster.paths import objects_path

_TOKENS = ("authentication.k8s.io/v1", "tokenreviews", "TokenReview")
_ACCESS = ("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")
_OWN_ACCESS = ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")

T = TypeVar("T")


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
        status = (await _review(self._api, _TOKENS, {"token": token}, _decode_token)).status
        user = status.user
        if not status.authenticated or not user.username:
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
        return (await _review(self._api, _ACCESS, spec, _decode_access)).status.allowed


async def may(api: Api, verb: str, api_version: str, resource: str) -> bool:
    """Whether the account may do this with the resource in all namespaces. Raises ApiFailure."""
    group = api_version.rpartition("/")[0]
    asked = {"verb": verb, "group": group, "resource": resource}
    return (await _review(api, _OWN_ACCESS, {"resourceAttributes": asked}, _decode_access)).status.allowed


async def _review(api: Api, kind: tuple[str, str, str], spec: object, decode: Callable[[bytes], T]) -> T:
    version, resource, name = kind
    path = objects_path(version, resource)
    body = msgspec.json.encode({"apiVersion": version, "kind": name, "spec": spec})
    answer = await api.request("POST", path, body=body, guarded=False, needs_right=False)
    return read(decode, answer, path, "a review")
