"""What has been sent to the API server and is not seen in it yet, laid over the store until it is.

A placement that was decided must count at once, or the next cycle would decide it again. So a bind is *assumed*: the
store shows the pod on its node from the moment the bind is handed over, until the API server shows it there (or
elsewhere), or until it is known to have failed and is *forgotten*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kai_sched.model.objects import Pod
from kai_sched.model.store import Store


@dataclass(frozen=True, slots=True)
class Turns:
    """Groups ("namespace/name") that are tried before all others, and those that are not tried in this cycle."""

    first: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()


NO_TURNS = Turns()


@dataclass(frozen=True, slots=True)
class Assumed:
    """One pod's bind on its way. ``observed`` is the pod as the API server last showed it."""

    node: str
    observed: Pod


class Overlay:
    """Puts pods into the store, each as the API server shows it or, where a bind is on its way, on its node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._assumed: dict[str, Assumed] = {}

    @property
    def assumed(self) -> Mapping[str, Assumed]:
        """By "namespace/name" of the pod."""
        return self._assumed

    def observe(self, pod: Pod) -> None:
        """The API server shows the pod so."""
        assumed = self._assumed.get(pod.key)
        if assumed is None:
            self._store.put(pod)
        elif pod.uid != assumed.observed.uid or pod.node:
            del self._assumed[pod.key]
            self._store.put(pod)
        else:
            self._assumed[pod.key] = Assumed(assumed.node, pod)
            self._store.put(replace(pod, node=assumed.node))

    def gone(self, key: str) -> None:
        """The API server no longer has the pod."""
        self._assumed.pop(key, None)
        self._store.remove(Pod, key)

    def assume(self, key: str, uid: str, node: str) -> bool:
        """Count the pod as being on the node. False, and nothing is done, where that pod is not there to be bound."""
        pod = self._store.get(Pod, key)
        if not isinstance(pod, Pod) or pod.uid != uid or pod.node:
            return False
        self._assumed[key] = Assumed(node, pod)
        self._store.put(replace(pod, node=node))
        return True

    def forget(self, key: str, uid: str) -> None:
        """The bind failed: the pod is again as the API server shows it. Of no effect where that is known already."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.observed.uid == uid:
            del self._assumed[key]
            self._store.put(assumed.observed)
