"""Admission reviews as bytes (API 5.2, 6.2, 8): which path is answered by which review, and the most bytes of each."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kai_sched.model.field_errors import shown
from kai_sched.model.read.kinds import NAMESPACED, POD, POD_GROUP, QUEUE, TOPOLOGY
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.reconcile.admission.objects import validate_pod_group, validate_queue, validate_topology
from kai_sched.reconcile.admission.pods import mutate_pod
from kai_sched.reconcile.admission.sharing import validate_pod
from kai_sched.reconcile.admission.types import AdmissionRequest, AdmissionSettings, Answer, Review

__all__ = ["BODY_MAX", "VALIDATED", "AdmissionSettings", "review", "validate"]

MUTATE_POD = "/mutate--v1-pod"
VALIDATE_POD = "/validate--v1-pod"
VALIDATE_QUEUE = "/validate-scheduling-run-ai-v2-queue"
VALIDATE_POD_GROUP = "/validate-scheduling-run-ai-v2alpha2-podgroup"
VALIDATE_TOPOLOGY = "/validate-kai-scheduler-v1alpha1-topology"

FORBIDDEN = 403
_REVIEWED = frozenset({"CREATE", "UPDATE"})


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Body(msgspec.Struct, rename="camel"):
    request: _Request
    api_version: str = ""
    kind: str = ""


_decoder = msgspec.json.Decoder(_Body)
_encoder = msgspec.json.Encoder()

VERSION = "admission.k8s.io/v1"
_REVIEWS: Mapping[str, Review] = {
    MUTATE_POD: mutate_pod,
    VALIDATE_POD: validate_pod,
    VALIDATE_QUEUE: validate_queue,
    VALIDATE_POD_GROUP: validate_pod_group,
    VALIDATE_TOPOLOGY: validate_topology,
}


VALIDATED: Mapping[tuple[str, str], Review] = {
    POD: validate_pod,
    QUEUE: validate_queue,
    POD_GROUP: validate_pod_group,
    TOPOLOGY: validate_topology,
}

# The most bytes of a review, by path; a larger review is refused. An update carries two objects. The limit of etcd for
# an object is 1.5 MB, managedFields included. Queues and topologies have no long lists.
BODY_MAX: Mapping[str, int] = {
    MUTATE_POD: 8 * 2**20,
    VALIDATE_POD: 8 * 2**20,
    VALIDATE_QUEUE: 2**20,
    VALIDATE_POD_GROUP: 4 * 2**20,
    VALIDATE_TOPOLOGY: 2**20,
}


def review(path: str, body: bytes, settings: AdmissionSettings, suffix: str) -> bytes:
    """The AdmissionReview that answers ``body``; ``path`` is one of API 5.2, 6.2 and 8.

    ``suffix`` is random, seven characters of a-z and 0-9, for names that have to be new. Raises ValueError for a body
    that is no AdmissionReview with an object, or a larger one than BODY_MAX says, and for another path.
    """
    answer_for: Review | None = _REVIEWS.get(path)
    if answer_for is None:
        raise ValueError(f"nothing is reviewed at {path}")
    if len(body) > BODY_MAX[path]:
        raise ValueError(f"{len(body):,} bytes, and {BODY_MAX[path]:,} are the most at {path}")
    asked = _read(body)
    answer = Answer()
    if asked.operation in _REVIEWED:
        if asked.object is None:
            raise ValueError("request.object is missing")
        request = AdmissionRequest(asked.operation, asked.name, asked.namespace, asked.object, asked.old_object or {})
        answer = _safe_answer(answer_for, request, settings, suffix)
    response: dict[str, Any] = {"uid": asked.uid, "allowed": not answer.denied}
    if answer.denied:
        response["status"] = {"code": FORBIDDEN, "reason": "Forbidden", "message": answer.denied}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoder.encode(list(answer.patch))).decode()
    return _encoder.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response})


def validate(kind: tuple[str, str], content: Mapping[str, Any], settings: AdmissionSettings) -> Answer:
    """The answer to the creation of an object of one of the kinds in VALIDATED."""
    meta = content.get("metadata")
    namespace = (meta.get("namespace") if isinstance(meta, Mapping) else None) or (
        DEFAULT_NAMESPACE if kind[1] in NAMESPACED else ""
    )
    request = AdmissionRequest("CREATE", "", str(namespace), content)
    return _safe_answer(VALIDATED[kind], request, settings, "")


def _read(body: bytes) -> _Request:
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if (found.api_version, found.kind) != (VERSION, "AdmissionReview"):
        raise ValueError(f"expected an AdmissionReview of {VERSION}, got {found.kind!r} of {found.api_version!r}")
    return found.request


def _safe_answer(
    answer_for: Callable[[AdmissionRequest, AdmissionSettings, str], Answer],
    request: AdmissionRequest,
    settings: AdmissionSettings,
    suffix: str,
) -> Answer:
    """The answer; an object whose parts have other types or sizes than its schema says is refused, whatever it is."""
    try:
        # An object that is leaving must not be kept by a rule: its finalizers are taken off by updates.
        if request.is_leaving and answer_for is not validate_pod:
            return Answer()
        return answer_for(request, settings, suffix)
    except (AttributeError, LookupError, TypeError) as error:
        fault = f"a field has another type than its schema says ({shown(str(error))})"
    except RecursionError:
        fault = "nested too deeply for a Kubernetes object"
    except (ValueError, ArithmeticError) as error:
        fault = f"a field has a value that cannot be used ({shown(str(error))})"
    return Answer(denied=f"{request.label}: {fault}: correct it")
