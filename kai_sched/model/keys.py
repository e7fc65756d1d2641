"""Keys, the names of objects and groups inside the scheduler: "namespace/name", and the mark of a bare pod's group.
Only this module makes keys and takes them apart.

An object in a namespace has the key "namespace/name"; an object without a namespace has its name as its key. Neither
part can hold a slash (``api.legal``), so a key can be taken apart again.

A pod without a pod group (a *bare pod*) is scheduled as a group of one pod. The key of that group is the key of the
pod, with the mark "pod:" in front where a PodGroup of the same namespace and name may exist. Kubernetes allows no colon
in the name of a namespace, so a marked key is never the key of a PodGroup.
"""

from __future__ import annotations

from typing import NewType

ObjectKey = NewType("ObjectKey", str)
GroupKey = NewType("GroupKey", str)

_BARE_POD_MARK = "pod:"


def object_key(namespace: str, name: str) -> ObjectKey:
    """The key of the object with this name in the namespace."""
    # Keys are made in hot loops: the f-string is returned as it is, without a call of the NewType.
    return f"{namespace}/{name}"  # type: ignore[return-value]


def group_key(namespace: str, name: str) -> GroupKey:
    """The key of the PodGroup with this name in the namespace."""
    return f"{namespace}/{name}"  # type: ignore[return-value]


def split_key(key: str) -> tuple[str, str]:
    """The namespace and the name of an unmarked key; the namespace is empty where the key is a name alone."""
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)


def bare_pod_group_key(pod_key: str) -> GroupKey:
    """The marked key of the group that the bare pod with this key forms."""
    return GroupKey(_BARE_POD_MARK + pod_key)


def unmarked(key: str) -> str:
    """The key without the mark of bare pods; for a bare pod's group that is the key of the pod."""
    return key.removeprefix(_BARE_POD_MARK)
