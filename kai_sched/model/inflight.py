"""How the store shows pods whose bind or eviction was sent and does not show in the API server yet.

A decision must count in the next cycle at once, or that cycle would make it again. A bind is *assumed*: the store shows
the pod on its node from the moment the bind is handed over until the API server shows the pod on a node, or until the
bind has failed and is *forgotten*. An eviction is *expected* in the same way: the store shows the pod as leaving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kai_sched.model.claims.inflight import ClaimOverlay
from kai_sched.model.numa import NO_PLACEMENT, Placement
from kai_sched.model.objects import Pod
from kai_sched.model.store import Store


@dataclass(frozen=True, slots=True)
class Assumed:
    """What was sent for one pod: a bind to ``node``, an eviction at ``deleted_ns`` (ns since the epoch), or both.

    ``gpu_groups`` are the devices that it will share there, ``zones`` what it will hold of NUMA zones. ``observed`` is
    the pod as the API server last showed it; "" and 0 stand for nothing sent.
    """

    node: str
    deleted_ns: int
    observed: Pod
    gpu_groups: tuple[str, ...] = ()
    zones: Placement = NO_PLACEMENT

    @property
    def shown(self) -> Pod:
        """The pod as it is once the requests have taken effect."""
        pod = self.observed
        # Labels of a pod that waits may be those of an earlier bind, which failed.
        groups = self.gpu_groups if self.node else pod.gpu_groups
        pod = replace(pod, node=pod.node or self.node, deleted_ns=pod.deleted_ns or self.deleted_ns, gpu_groups=groups)
        return replace(pod, zones=self.zones, zones_observed=False) if self.node and self.zones else pod


class Overlay:
    """Writes pods to the store: as the API server shows them, changed by the requests that are under way.

    All keys are "namespace/name". Calls for a pod that was deleted and created again (another uid) have no effect.

    Attributes
    ----------
    claims
        The same for the claims for devices.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.claims = ClaimOverlay(store)
        self._assumed: dict[str, Assumed] = {}

    @property
    def assumed(self) -> Mapping[str, Assumed]:
        """The pods with a request under way, by key."""
        return self._assumed

    def observe(self, pod: Pod) -> None:
        """Take over the pod as the API server shows it."""
        key = pod.key
        before = self._assumed.get(key)
        if before is None or before.observed.uid != pod.uid:
            before = Assumed("", 0, pod)
        self._show(key, replace(before, observed=pod))

    def gone(self, key: str) -> None:
        """Remove the pod: the API server no longer has it."""
        self._assumed.pop(key, None)
        self._store.remove(Pod, key)

    def assume(
        self, key: str, uid: str, node: str, gpu_groups: tuple[str, ...] = (), zones: Placement = NO_PLACEMENT
    ) -> bool:
        """Show the pod on the node, where it shares the devices of these groups and holds this of NUMA zones.

        Returns False, without effect, if the pod is gone or has a node.
        """
        pod = self._store.get(Pod, key)
        if pod is None or pod.uid != uid or pod.node:
            return False
        before = self._assumed.get(key) or Assumed("", 0, pod)
        self._show(key, replace(before, node=node, gpu_groups=gpu_groups, zones=zones))
        return True

    def forget(self, key: str, uid: str) -> None:
        """Take back ``assume``: the bind failed."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.observed.uid == uid:
            self._show(key, replace(assumed, node="", gpu_groups=(), zones=NO_PLACEMENT))

    def expect(self, key: str, uid: str, now_ns: int) -> bool:
        """Show the pod as leaving since ``now_ns``. Returns False, without effect, if it is gone or leaving already."""
        pod = self._store.get(Pod, key)
        if pod is None or pod.uid != uid or pod.deleted_ns:
            return False
        before = self._assumed.get(key) or Assumed("", 0, pod)
        self._show(key, replace(before, deleted_ns=now_ns))
        return True

    def leaves(self, key: str) -> bool:
        """Whether the API server shows the pod as leaving, apart from what is expected."""
        pod, assumed = self._store.get(Pod, key), self._assumed.get(key)
        return pod is not None and pod.deleted_ns != 0 and (assumed is None or assumed.deleted_ns == 0)

    def cancel_eviction(self, key: str, uid: str) -> None:
        """Take back ``expect``: the eviction failed or was not sent, and the pod stays."""
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.observed.uid == uid:
            self._show(key, replace(assumed, deleted_ns=0))

    def regroup(self, key: str, uid: str, change: Callable[[Pod], Pod]) -> None:
        """Apply ``change`` (of its group) to the pod, although the API server does not show it yet."""
        pod = self._store.get(Pod, key)
        if pod is not None and pod.uid == uid:
            before = self._assumed.get(key) or Assumed("", 0, pod)
            self._show(key, replace(before, observed=change(before.observed)))

    def _show(self, key: str, sent: Assumed) -> None:
        """Keep the requests that the API server does not show yet, and put the pod into the store."""
        pod = sent.observed
        node, groups, zones = ("", (), NO_PLACEMENT) if pod.node else (sent.node, sent.gpu_groups, sent.zones)
        deleted_ns = 0 if pod.deleted_ns else sent.deleted_ns
        if node or deleted_ns:
            left = self._assumed[key] = Assumed(node, deleted_ns, pod, groups, zones)
            self._store.put(left.shown)
        else:
            self._assumed.pop(key, None)
            self._store.put(pod)
