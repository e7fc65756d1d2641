"""When scaling pods are made and deleted, and that none is made for a pod that has stopped waiting (API 13);
``reconcile.scaling_pods`` decides which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from kai_sched.api import names
from kai_sched.cluster.client import STRATEGIC, Api, ApiFailure
from kai_sched.cluster.paths import objects_path, pod_path
from kai_sched.model.config import Config, ScalingSettings
from kai_sched.model.objects import Pod
from kai_sched.model.store import Cluster
from kai_sched.operator.clock import Clock
from kai_sched.reconcile.scaling_pods import name_of, plan_scaling, scaling_pod
from kai_sched.telemetry.unexpected import FAULTS

log = structlog.get_logger("scaling")

PERIOD_S = 5.0
# After a scaling pod is deleted none is made for so long: a node that came for it is being filled.
COOL_DOWN_S = 60.0
MADE_AT_A_TIME = 50  # the rest is made in the next rounds
OWN_ARGUMENTS = ("version",)  # what the scheduler's own image runs: it ends at once
_GONE = b'{"gracePeriodSeconds":0}'
_NOTED = "an autoscaler is to add a node for {key}, which asks for a part of a GPU"


class ScalingPods:
    """For one event loop.

    Parameters
    ----------
    api
        The client; writes are guarded by the lease.
    cluster
        Returns the cluster as the informers show it.
    unschedulable
        The pods whose condition PodScheduled says ``Unschedulable``; somebody else keeps it.
    config
        Returns the settings in force.
    own_image
        Returns the image of the pod that this process runs in; "" outside of a cluster. Raises ApiFailure.
    clock
        The time.
    """

    def __init__(
        self,
        api: Api,
        cluster: Callable[[], Cluster],
        unschedulable: Collection[str],
        config: Callable[[], Config],
        own_image: Callable[[], Awaitable[str]],
        clock: Clock,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._unschedulable = unschedulable
        self._config = config
        self._own_image = own_image
        self._clock = clock
        self._quiet_until = 0.0  # monotonic
        self._is_on = True  # so that what an earlier process made goes if it is off now
        self._image = ""
        self._problem = ""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.round()
            except ApiFailure as failure:
                self._warn(str(failure))
            except Exception as error:
                FAULTS.note("scaling", "pods", error)
            await asyncio.sleep(PERIOD_S)

    async def round(self) -> None:
        """Compare once, delete, and make what is missing. Raises ApiFailure where one cannot be deleted."""
        config = self._config()
        wanted = config.gpu_sharing and config.scaling.enabled
        if not wanted and not self._is_on:
            return
        cluster, waiting = self._cluster(), tuple(self._unschedulable) if wanted else ()
        settings = replace(config.scaling, enabled=wanted)
        plan = await asyncio.to_thread(plan_scaling, cluster, waiting, replace(config, scaling=settings))
        for key in plan.remove:
            await self._remove(cluster, key)
        self._is_on = wanted
        if plan.remove:
            self._quiet_until = self._clock.monotonic() + COOL_DOWN_S
        if not plan.create or self._clock.monotonic() < self._quiet_until:
            return
        settings = await self._with_image(settings)
        if not settings.image:
            self._warn("no image is known: name spec.nodeScaleAdjuster.args.scalingPodImage in the Config kai-config")
            return
        taken = {pod.name for pod in cluster.pods.values() if pod.namespace == settings.namespace}
        problem = ""
        for key in plan.create[:MADE_AT_A_TIME]:
            try:
                if await self._make(cluster.pods[key], settings, taken):
                    taken.add(name_of(key, taken))
            except ApiFailure as failure:  # the next pods may be different
                problem = str(failure)
        self._warn(problem)

    async def _make(self, pod: Pod, settings: ScalingSettings, taken: Collection[str]) -> bool:
        """Make it unless the pod has stopped waiting; whether it is there now. Raises ApiFailure."""
        try:
            raw = msgspec.json.decode(await self._api.request("GET", pod_path(pod.key)))
        except ApiFailure as failure:
            if failure.status == 404:
                return False
            raise
        if not _waits(raw, pod.uid):
            return False
        name = name_of(pod.key, taken)
        body = msgspec.json.encode(scaling_pod(pod, raw, name, settings))
        try:
            await self._api.request("POST", objects_path("v1", "pods", settings.namespace), body=body)
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
        log.info("scaling.made", pod=name, waits=pod.key, gpus=pod.shape.share.devices if pod.shape.share else 0)
        # Autoscalers look at pods that a scheduler has given up on; this one need not be tried first.
        condition = {
            "type": names.POD_SCHEDULED,
            "status": "False",
            "reason": names.UNSCHEDULABLE,
            "message": _NOTED.format(key=pod.key),
        }
        status = msgspec.json.encode({"status": {"conditions": [condition]}})
        path = pod_path(f"{settings.namespace}/{name}", "status")
        await self._api.request("PATCH", path, body=status, content_type=STRATEGIC)
        return True

    async def _remove(self, cluster: Cluster, key: str) -> None:
        """Delete the scaling pod with the uid that was seen. Raises ApiFailure."""
        options = msgspec.json.decode(_GONE) | {"preconditions": {"uid": cluster.pods[key].uid}}
        try:
            await self._api.request("DELETE", pod_path(key), body=msgspec.json.encode(options))
        except ApiFailure as failure:
            if failure.status not in (404, 409):
                raise
        else:
            log.info("scaling.removed", pod=key)

    async def _with_image(self, settings: ScalingSettings) -> ScalingSettings:
        """The settings with an image: the scheduler's own where none is named."""
        if settings.image:
            return settings
        if not self._image:
            self._image = await self._own_image()
        return replace(settings, image=self._image, arguments=OWN_ARGUMENTS)

    def _warn(self, problem: str) -> None:
        before, self._problem = self._problem, problem
        if problem and problem != before:
            log.warning("scaling.problem", problem=problem)


def _waits(raw: dict[str, Any], uid: str) -> bool:
    """Whether the pod is the one of this uid, has no node, and is said to be unschedulable."""
    meta, spec, status = (raw.get(part) or {} for part in ("metadata", "spec", "status"))
    if meta.get("uid") != uid or meta.get("deletionTimestamp") or spec.get("nodeName"):
        return False
    return any(
        condition.get("type") == names.POD_SCHEDULED
        and condition.get("status") == "False"
        and condition.get("reason") == names.UNSCHEDULABLE
        for condition in status.get("conditions") or ()
    )
