"""The workloads of the soak: what is made for each, at random, and what the judge is told of its pods.

Bare pods, pods of Jobs that start together, and gangs with a PodGroup; their requests, labels, anti-affinity terms,
volumes, settings, parts of GPUs and claims for devices are their own. Nobody but the scheduler has to make room.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from kai_sched.api import names
from tests.cluster import claims, objects
from tests.cluster.client import Object
from tests.cluster.soak_judge import Wanted

LIFE_S = (2.0, 40.0)
NODE_GPUS, NODE_MILLI_CPU = 8, 64_000
GPU_MIB = 81_920
QUEUES = 4
TEMPLATE = "one-device"
# What a pod asks for of GPUs, and in how many of a hundred pods.
DEMANDS = {"none": 38, "whole": 30, "fraction": 16, "memory": 4, "two parts": 4, "claim": 8}
FRACTIONS = ("0.1", "0.25", "0.5", "0.7", "0.9")
MIB = (4_096, 20_480, 61_440)
HOW_CLAIMED = ("claim", "template", "extended")


class Workload:
    """What is made for one workload: ``before`` its pods, the pods, and which of all that is to be deleted."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.name = f"work-{number}"
        self.kind = chance.choices(("bare", "gang", "job", "never"), (40, 29, 30, 1))[0]
        self.life_s = chance.uniform(*LIFE_S)
        self.before: list[Object] = []
        self.pods: list[Object] = []
        self.wanted: list[Wanted] = []
        self._chance = chance
        self._queue = f"team-{number % QUEUES}"
        self._apart = chance.random() < 0.5
        # One claim for all pods, which then have to be on one node.
        self._shared = "" if self._apart or self.kind != "gang" or chance.random() > 0.05 else f"{self.name}-device"
        size = chance.randint(2, 5) if self.kind in ("gang", "job") else 1
        if self.kind == "gang":
            self.before.append(objects.pod_group(self.name, self._queue, size))
        elif self.kind == "job":
            self.before.append(_job(self.name, self._queue, size))
        if self._shared:
            self.before.append(claims.claim(self._shared, queue=self._queue))
        for index in range(size):
            self._add(f"{self.name}-{index}")

    def _add(self, name: str) -> None:
        milli_cpu = self._chance.randint(50, 999)
        mark = self.name if self._apart else name
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job-name": mark}}}
        spec: dict[str, Any] = {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        }
        spec |= self._stored(name)
        gpus, notes, share, devices, extended = 0, dict[str, str](), Fraction(0), 1, False
        match "never" if self.kind == "never" else self._demand():
            case "never":
                gpus = NODE_GPUS + 1
            case "whole":
                gpus = 1
            case "fraction" | "two parts" as demand:
                part, devices = self._chance.choice(FRACTIONS), 1 + (demand == "two parts")
                notes, share = {names.GPU_FRACTION_ANNOTATION: part}, Fraction(part)
                if devices > 1:
                    notes[names.GPU_DEVICES_ANNOTATION] = str(devices)
            case "memory":
                mib = self._chance.choice(MIB)
                notes, share = {names.GPU_MEMORY_ANNOTATION: str(mib)}, Fraction(mib, GPU_MIB)
            case "claim":
                extended = self._claim(name, spec)
        group = self.name if self.kind == "gang" else None
        labels = {"job-name": mark, "pod": name}
        cpu = f"{milli_cpu}m"
        pod = objects.pod(name, self._queue, gpus, group=group, cpu=cpu, labels=labels, annotations=notes, **spec)
        if extended:
            resources = pod["spec"]["containers"][0]["resources"]
            for part in ("requests", "limits"):
                resources[part] = resources[part] | {claims.IMPLICIT: "1"}
        self.pods.append(pod)
        fits = self.kind != "never"
        self.wanted.append(Wanted(name, self.name, milli_cpu, gpus, fits, self._apart, share, devices))

    def _demand(self) -> str:
        return "claim" if self._shared else self._chance.choices(list(DEMANDS), list(DEMANDS.values()))[0]

    def _claim(self, name: str, spec: dict[str, Any]) -> bool:
        """Have the pod ask for one device; whether it does so by an extended resource, which has no claim of ours."""
        how = "shared" if self._shared else self._chance.choice(HOW_CLAIMED)
        if how == "extended":
            return True
        source = {"resourceClaimTemplateName": TEMPLATE} if how == "template" else {"resourceClaimName": self._shared}
        if how == "claim":
            source = {"resourceClaimName": f"device-{name}"}
            self.before.append(claims.claim(f"device-{name}", queue=self._queue))
        spec["resourceClaims"] = [{"name": "gpu"} | source]
        return False

    def _stored(self, name: str) -> dict[str, Any]:
        """A volume or settings for some of the pods."""
        draw = self._chance.random()
        if draw < 0.1:
            self.before += _volume_claim(f"data-{name}")
            return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]}
        if draw < 0.2:
            settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": objects.meta(f"settings-{name}")}
            self.before.append(settings | {"data": {"name": name}})
            return {"volumes": [{"name": "settings", "configMap": {"name": f"settings-{name}"}}]}
        return {}


def _job(name: str, queue: str, size: int) -> Object:
    """A Job whose pods start together. No controller makes them."""
    marks: dict[str, Any] = {
        "labels": {names.QUEUE_LABEL: queue},
        "annotations": {"kai.scheduler/batch-min-member": str(size)},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"parallelism": size, "completions": size, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": objects.meta(name, **marks), "spec": spec}


def _volume_claim(name: str) -> list[Object]:
    """A claim, and the volume that it is bound to."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": objects.meta(name),
        "spec": {
            "capacity": size,
            "accessModes": modes,
            "hostPath": {"path": "/data"},
            "storageClassName": "by-hand",
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": objects.meta(name),
        "spec": {
            "accessModes": modes,
            "resources": {"requests": size},
            "storageClassName": "by-hand",
            "volumeName": name,
        },
    }
    return [volume, claim]
