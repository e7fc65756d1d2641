"""The URL paths and field selectors of requests: the only place where text becomes part of a request.

Names come from tenants. A segment that Kubernetes would not accept is refused before anything is sent, and the rest is
percent-encoded. Invariant: a request asks for the named object and for nothing else.
"""

from __future__ import annotations

import functools
from typing import NewType
from urllib.parse import quote

from kai_sched.api import legal
from kai_sched.cluster.failure import INVALID, INVALID_STATUS, ApiFailure
from kai_sched.model.keys import split_key

Path = NewType("Path", str)

GROUPS = Path("/apis")  # lists all groups and versions
VERSION = Path("/version")  # of the API server; the smallest answer


@functools.lru_cache(maxsize=1024)
def version_path(api_version: str) -> Path:
    """Return the path of a group and version such as "batch/v1", or of "v1"; it lists kinds. Raises ApiFailure."""
    if fault := legal.version_fault(api_version):
        raise _impossible("apiVersion", fault)
    return Path(f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}")


@functools.lru_cache(maxsize=4096)
def objects_path(api_version: str, resource: str, namespace: str = "") -> Path:
    """Return the path of all objects of a resource such as "pods", in a namespace or in all. Raises ApiFailure."""
    root = version_path(api_version)
    if not legal.is_subdomain(resource):
        raise _impossible("resource", f"{legal.shown(resource)} is no name of a resource")
    if not namespace:
        return Path(f"{root}/{resource}")
    if not legal.is_label(namespace):
        raise _impossible("namespace", f"{legal.shown(namespace)} is no name of a namespace")
    return Path(f"{root}/namespaces/{namespace}/{resource}")


def object_path(api_version: str, resource: str, namespace: str, name: str, part: str = "") -> Path:
    """Return the path of one object, or of a part such as "status"; ``namespace`` may be empty. Raises ApiFailure."""
    above = objects_path(api_version, resource, namespace)
    if fault := legal.name_fault(api_version, name):
        raise _impossible("name", fault)
    # A name may contain what a URL may not, such as a space.
    return Path(f"{above}/{quote(name, safe='')}/{part}" if part else f"{above}/{quote(name, safe='')}")


def pod_path(key: str, part: str = "") -> Path:
    """Return the path of the pod "namespace/name". See ``object_path``."""
    namespace, name = split_key(key)
    return object_path("v1", "pods", namespace, name, part)


def applied(path: Path, manager: str) -> Path:
    """Return the path to apply an object on the server as this manager of fields, whoever else has set them."""
    return Path(f"{path}?fieldManager={quote(manager, safe='')}&force=true")


def on_node(name: str) -> dict[str, str]:
    """Return the parameter that selects the pods on the node of that name. See ``only``."""
    return {"fieldSelector": f"spec.nodeName={_escaped(name)}"}


def only(name: str) -> dict[str, str]:
    """Return the parameter that selects the object of that name. Any text is escaped to a value."""
    return {"fieldSelector": f"metadata.name={_escaped(name)}"}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _impossible(part: str, fault: str) -> ApiFailure:
    return ApiFailure("request", "not sent", INVALID_STATUS, INVALID, f"{part}: {fault}")
