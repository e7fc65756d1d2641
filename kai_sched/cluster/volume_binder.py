"""Binds the volumes of a group before its pods: writes what ``reconcile.volume_plan`` planned, and waits until every
claim is bound, or the time is up.

The cycle executor submits groups; groups whose claims are bound go on to the pod binder. Kubernetes itself binds the
volumes. While a group waits, its pods stay assumed, so nobody else gets their room, and no worker waits with it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from kai_sched.api import names
from kai_sched.cluster.client import MERGE, Api, ApiFailure
from kai_sched.cluster.delivery import Delivery, deliver
from kai_sched.cluster.paths import Path, object_path
from kai_sched.cluster.pod_binder import OBSOLETE, BindFailure
from kai_sched.cluster.retry import VOLUMES
from kai_sched.model.objects import Pod, Volume, VolumeClaim
from kai_sched.model.store import Cluster, Store
from kai_sched.model.volumes import FREE_PHASES, VolumeBook
from kai_sched.plan.effects import Bind, ClaimVolume, SelectNode, VolumeWrite
from kai_sched.reconcile.volume_plan import Refusal, plan_volumes
from kai_sched.telemetry.unexpected import FAULTS

TIMEOUT_S = 120.0
REST_S = 0.0005  # between two looks at the store, for each pod that waits: so these take a few hundredths of the time
REST_MAX_S = 2.0
VOLUME_BINDING = "VolumeBinding"


class VolumeBinder:
    """Binds the volumes of a group, then submits its binds.

    Parameters
    ----------
    api
        The client of the API server.
    store
        The cluster as the informers show it.
    store_changed
        Set after each change of the store.
    rng
        Jitter of retries.
    submit
        Called with a group once all its claims are bound.
    failed
        Called with each bind of a group that cannot be bound.
    version
        Returns the resourceVersion in which the PersistentVolume of a name is known.
    timeout_s
        How long a group waits for its claims.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        store_changed: asyncio.Event,
        rng: random.Random,
        submit: Callable[[Sequence[Bind]], None],
        failed: Callable[[Bind, BindFailure], None],
        version: Callable[[str], str],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._api = api
        self._store = store
        self._rng = rng
        self._submit = submit
        self._failed = failed
        self._version = version
        self._timeout_s = timeout_s
        self._decided: dict[str, VolumeWrite] = {}  # writes under way, by the key of the claim
        self._news = store_changed
        self._waiting: set[asyncio.Task[None]] = set()
        self._n_waiting = 0  # pods whose claims are awaited

    def submit(self, group: Sequence[Bind], cluster: Cluster) -> None:
        """Bind the volumes of the group, then the group. ``cluster`` is the view that it was decided on."""
        try:
            writes, awaits, refusal = self._plan(group, cluster)
        except Exception as error:
            self._fail(group, _unbound(FAULTS.note("volumes", group[0].pod, error)))
            return
        self._decided.update({_claim_of(write): write for write in writes})
        writing = [(write, self._show(write)) for write in writes]
        if not awaits and not refusal:
            self._submit(group)
            return
        # If one pod is refused, what the others need is written all the same: the next cycle uses it.
        task = asyncio.create_task(self._carry_out(group, writing, awaits, refusal), name="volumes")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def _plan(self, group: Sequence[Bind], cluster: Cluster) -> tuple[list[VolumeWrite], list[str], str]:
        """Return what has to be written, the claims to wait for, and why the group cannot be bound (empty: it can)."""
        book = VolumeBook(cluster)
        writes: list[VolumeWrite] = []
        awaits: list[str] = []
        decided = dict(self._decided)
        refusal = ""
        for bind in group:
            pod = cluster.pods[bind.pod]
            if not pod.shape.claims:
                continue
            plan = plan_volumes(book, pod, bind.node, decided, dict(bind.volumes))
            if isinstance(plan, Refusal):
                refusal = refusal or plan.message
                continue
            writes += plan.writes
            awaits += plan.awaits
            decided.update({_claim_of(write): write for write in plan.writes})
        return writes, awaits, refusal

    async def stop(self) -> None:
        """Give up waiting."""
        tasks = list(self._waiting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry_out(
        self, group: Sequence[Bind], writing: Sequence[tuple[VolumeWrite, bool]], awaits: Sequence[str], why: str
    ) -> None:
        """Write, wait, and hand the group on. With ``why`` the group cannot be bound, whatever is written.

        ``writing`` is what is written, and whether the store shows that.
        """
        selected = {_claim_of(write) for write, _ in writing if not isinstance(write, ClaimVolume)}
        failure: BindFailure | None
        self._n_waiting += len(group)
        try:
            await asyncio.gather(*(self._deliver(write, is_shown) for write, is_shown in writing))
            async with asyncio.timeout(self._timeout_s):
                failure = _unbound(why) if why else await self._until_bound(group, awaits, selected)
        except ApiFailure as error:
            failure = _unbound(str(error))
        except TimeoutError:
            failure = _unbound(f"the claims {', '.join(awaits)} were not bound within {self._timeout_s:.0f} s")
        except Exception as error:
            failure = _unbound(FAULTS.note("volumes", group[0].pod, error))
        finally:
            self._n_waiting -= len(group)
            for write, _ in writing:
                self._decided.pop(_claim_of(write), None)
        if failure is not None:
            self._fail(group, failure)
        else:
            self._submit(group)

    async def _until_bound(
        self, group: Sequence[Bind], awaits: Sequence[str], selected: set[str]
    ) -> BindFailure | None:
        """Return why waiting is pointless, or None once every claim is bound."""
        seen: set[str] = set()
        while True:
            self._news.clear()
            left = 0
            for key in awaits:
                claim = self._store.get(VolumeClaim, key)
                if not isinstance(claim, VolumeClaim) or claim.deleted:
                    return _unbound(f"PersistentVolumeClaim {key} is gone")
                left += not claim.volume
                if claim.selected_node:
                    seen.add(key)
                elif key in seen & selected and not claim.volume:
                    return _unbound(f"no volume can be made for PersistentVolumeClaim {key} on that node")
            for bind in group:
                pod = self._store.get(Pod, bind.pod)
                if pod is None or pod.uid != bind.uid:  # the others are decided again without it
                    return BindFailure(OBSOLETE, f"pod {bind.pod} is gone")
            if not left:
                return self._reachable(group)
            await self._news.wait()
            await asyncio.sleep(min(REST_MAX_S, REST_S * self._n_waiting))  # each change wakes all groups that wait

    def _reachable(self, group: Sequence[Bind]) -> BindFailure | None:
        """Return why a new volume cannot be used on the node of its pod, or None."""
        book = VolumeBook(self._store.cluster())
        for bind in group:
            plan = plan_volumes(book, book.cluster.pods[bind.pod], bind.node)
            if isinstance(plan, Refusal):
                return _unbound(plan.message)
        return None

    async def _deliver(self, write: VolumeWrite, is_shown: bool) -> None:
        try:
            await deliver(_VolumeRequest(self._api, write, self._version), VOLUMES, self._rng)
        except BaseException:
            if is_shown:
                self._hide(write)
            raise

    def _show(self, write: VolumeWrite) -> bool:
        """Show in the store what is being written, so that the next cycle does not decide on it again; return whether
        that was to be shown: an administrator may have kept the volume for the claim.
        """
        if isinstance(write, ClaimVolume):
            volume = self._store.get(Volume, write.volume.name)
            if volume is None or volume.claim:
                return False
            self._store.put(replace(volume, claim=write.claim.key, claim_uid=write.claim.uid))
            return True
        claim = self._store.get(VolumeClaim, write.claim.key)
        if claim is None or claim.volume or claim.selected_node == write.node:
            return False
        self._store.put(replace(claim, selected_node=write.node))
        return True

    def _hide(self, write: VolumeWrite) -> None:
        """Take back ``_show``: the write failed."""
        if isinstance(write, ClaimVolume):
            volume = self._store.get(Volume, write.volume.name)
            if volume is not None and volume.claim == write.claim.key and volume.phase in FREE_PHASES:
                self._store.put(replace(volume, claim="", claim_uid=""))
        else:
            claim = self._store.get(VolumeClaim, write.claim.key)
            if claim is not None and claim.selected_node == write.node and not claim.volume:
                self._store.put(replace(claim, selected_node=""))

    def _fail(self, group: Sequence[Bind], failure: BindFailure) -> None:
        for bind in group:
            try:
                self._failed(bind, failure)
            except Exception as error:
                FAULTS.note("volumes", bind.pod, error)


class _VolumeRequest(Delivery[bool]):
    """One patch of a PersistentVolume or of a claim. Its failure is raised: it ends the whole group."""

    def __init__(self, api: Api, write: VolumeWrite, version: Callable[[str], str]) -> None:
        self._api = api
        self._write = write
        self._version = version

    async def send(self) -> bool:
        path, patch = self._claim_volume(self._write) if isinstance(self._write, ClaimVolume) else _select(self._write)
        await self._api.request("PATCH", path, body=msgspec.json.encode(patch), content_type=MERGE)
        return True

    def _claim_volume(self, write: ClaimVolume) -> tuple[Path, dict[str, Any]]:
        claim = write.claim
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        known = {
            "uid": write.volume.uid,
            "resourceVersion": self._version(write.volume.name),
            "annotations": {names.BOUND_BY_CONTROLLER_ANNOTATION: "yes"},
        }
        path = object_path("v1", "persistentvolumes", "", write.volume.name)
        return path, {"metadata": known, "spec": {"claimRef": reference}}


def _select(write: SelectNode) -> tuple[Path, dict[str, Any]]:
    claim = write.claim
    path = object_path("v1", "persistentvolumeclaims", claim.namespace, claim.name)
    return path, {"metadata": {"uid": claim.uid, "annotations": {names.SELECTED_NODE_ANNOTATION: write.node}}}


def _unbound(why: str) -> BindFailure:
    return BindFailure(VOLUME_BINDING, why)


def _claim_of(write: VolumeWrite) -> str:
    return write.claim.key
