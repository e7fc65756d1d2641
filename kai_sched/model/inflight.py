"""What has been sent to the API server and is not seen in it yet, laid over the store until it is.

A placement that was decided must count at once, or the next cycle would decide it again. So a bind is *assumed*: the
store shows the pod on its node from the moment the bind is handed over, until the API server shows it there (or
elsewhere), or until it is known to have failed and is *forgotten*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kai_sched.model.objects import Pod
from kai_sched.model.store import Store


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is on its way for one pod: a bind to ``node``, an eviction sent at ``deleted_ns``, or both.

    ``observed`` is the pod as the API server last showed it.
    """

    node: str
    deleted_ns: int
    observed: Pod

    @property
    def shown(self) -> Pod:
        """The pod as it will be."""
        pod = self.observed
        return replace(pod, node=pod.node or self.node, deleted_ns=pod.deleted_ns or self.deleted_ns)


class Overlay:
    """Puts pods into the store, each as the API server shows it or, where something is on its way, as it will be."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._assumed: dict[str, Assumed] = {}

    @property
    def assumed(self) -> Mapping[str, Assumed]:
        """By "namespace/name" of the pod."""
        return self._assumed

    def observe(self, pod: Pod) -> None:
        """The API server shows the pod so."""
        before = self._assumed.get(pod.key)
        if before is None or before.observed.uid != pod.uid:
            self._show(pod.key, Assumed("", 0, pod))
        else:
            self._show(pod.key, Assumed(before.node, before.deleted_ns, pod))

    def gone(self, key: str) -> None:
        """The API server no longer has the pod."""
        self._assumed.pop(key, None)
        self._store.remove(Pod, key)

    def assume(self, key: str, uid: str, node: str) -> bool:
        """Count the pod as being on the node. False, and nothing is done, where that pod is not there to be bound."""
        pod = self._store.get(Pod, key)
        if pod is None or pod.uid != uid or pod.node:
            return False
        before = self._assumed.get(key) or Assumed("", 0, pod)
        self._show(key, replace(before, node=node))
        return True

    def forget(self, key: str, uid: str) -> None:
        """The bind failed: the pod is again as the API server shows it. Of no effect where that is known already."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.observed.uid == uid:
            self._show(key, replace(assumed, node=""))

    def expect(self, key: str, uid: str, now_ns: int) -> bool:
        """Count the pod as leaving since now. False, and nothing is done, where it is gone or leaving already."""
        pod = self._store.get(Pod, key)
        if pod is None or pod.uid != uid or pod.deleted_ns:
            return False
        before = self._assumed.get(key) or Assumed("", 0, pod)
        self._show(key, replace(before, deleted_ns=now_ns))
        return True

    def leaves(self, key: str) -> bool:
        """Whether the API server itself shows the pod as leaving."""
        pod, assumed = self._store.get(Pod, key), self._assumed.get(key)
        return pod is not None and pod.deleted_ns != 0 and (assumed is None or assumed.deleted_ns == 0)

    def spare(self, key: str, uid: str) -> None:
        """The eviction failed or was not sent: the pod stays. Of no effect where that is known already."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.observed.uid == uid:
            self._show(key, replace(assumed, deleted_ns=0))

    def regroup(self, key: str, uid: str, change: Callable[[Pod], Pod]) -> None:
        """The pod belongs elsewhere, whatever the API server shows yet. Of no effect where that pod is not there."""
        pod = self._store.get(Pod, key)
        if pod is not None and pod.uid == uid:
            before = self._assumed.get(key) or Assumed("", 0, pod)
            self._show(key, replace(before, observed=change(before.observed)))

    def _show(self, key: str, assumed: Assumed) -> None:
        """Keep what the API server does not show yet, and put the pod into the store."""
        pod = assumed.observed
        node = "" if pod.node else assumed.node
        deleted_ns = 0 if pod.deleted_ns else assumed.deleted_ns
        if node or deleted_ns:
            left = self._assumed[key] = Assumed(node, deleted_ns, pod)
            self._store.put(left.shown)
        else:
            self._assumed.pop(key, None)
            self._store.put(pod)
