"""What must hold while pods come and go: told of every pod that is made, and of every event of the watch on pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tests.cluster.soak_devices import DeviceJudge

FAULTS_MAX = 20  # shown; all are counted
# A binding that was decided before a node was closed or deleted may still be sent: a shared GPU is awaited for 20 s.
STALE_S = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod as it was made. ``apart``: no two pods of its workload may share a node; ``fits``: it must get one.

    ``share``: which part it gets of each of ``devices`` GPUs; 0 for none.
    """

    name: str
    workload: str
    milli_cpu: int
    gpus: int
    fits: bool = True
    apart: bool = False
    share: Fraction = Fraction(0)
    devices: int = 1


@dataclass(slots=True)
class Followed:
    """Its way so far, in seconds of one clock that never goes back."""

    wanted: Wanted
    made_s: float
    bound_s: float | None = None
    node: str = ""
    gpus: Collection[str] = ()  # the groups of GPUs that it shares
    leaves: bool = False  # we have asked for its end
    is_late: bool = False
    is_gone: bool = False


@dataclass(slots=True)
class Room:
    """What a node has, and what is on it."""

    milli_cpu: int
    gpus: int
    pods: set[str] = field(default_factory=set)


class Judge:
    """``nodes``: millicores and GPUs by name. Faults are counted, and the first ones told in ``faults``.

    A fault that is ours may end a workload: all its pods leave then, and nothing is asked of it any more.
    """

    def __init__(self, nodes: Mapping[str, tuple[int, int]], late_s: float, torn_s: float) -> None:
        self.rooms = {name: Room(*size) for name, size in nodes.items()}
        self.late_s = late_s
        self.torn_s = torn_s
        self.pods: dict[str, Followed] = {}
        self.gangs: dict[str, list[str]] = {}
        self.groups: dict[str, str] = {}  # the PodGroup that each workload's pods name
        self.faults: list[str] = []
        self.fault_count = 0
        self.led_since_s: float | None = None  # since when the replica leads that stays
        self.waits_s: list[float] = []
        self.made = 0
        self.torn_worst_s = 0.0
        self.ended: set[str] = set()  # workloads, by faults of ours
        self.ended_count = 0
        self.devices = DeviceJudge(self._fault)
        self._torn_since: dict[str, float] = {}
        self._cordoned: dict[str, float] = {}  # nodes, and since when
        self._deleted: dict[str, float] = {}
        self._unreserved: set[tuple[str, str]] = set()  # node and GPU group whose reservation was deleted by others
        # Bound before we were told that it is made: where, when, with which GPUs, and whether it has ended too.
        self._early: dict[str, tuple[str, float, bool, Collection[str]]] = {}

    # What we do

    def lead(self, now_s: float) -> None:
        """The replica leads that stays. Before, leaders end one after the other, so only from now on is a pod late."""
        self.led_since_s = now_s

    def make(self, wanted: Wanted, now_s: float) -> None:
        """The API server has the pod."""
        self.made += 1
        self.pods[wanted.name] = Followed(wanted, now_s, leaves=wanted.workload in self.ended)
        if wanted.name in self._early:
            self._bind(self.pods[wanted.name], *self._early.pop(wanted.name))

    def gang(self, workload: str, pods: list[str]) -> None:
        """These start together."""
        self.gangs[workload] = pods

    def leave(self, name: str) -> None:
        """We are about to delete the pod."""
        self.pods[name].leaves = True

    def forget(self, workload: str, pods: list[str]) -> None:
        """All of the workload is gone."""
        for name in pods:
            self.pods.pop(name, None)
        self.gangs.pop(workload, None)
        self.groups.pop(workload, None)
        self.ended.discard(workload)
        self._torn_since.pop(workload, None)

    def add_node(self, name: str, milli_cpu: int, gpus: int) -> None:
        """We are about to create the node."""
        self._deleted.pop(name, None)
        self.rooms[name] = Room(milli_cpu, gpus)

    def delete_node(self, name: str, now_s: float) -> None:
        """We are about to delete the node: what has a pod there ends."""
        self._cordoned.pop(name, None)
        self._deleted[name] = now_s
        for pod in sorted(self.rooms.pop(name).pods):
            self._end(pod)

    def cordon(self, name: str, now_s: float) -> None:
        """We have closed the node to new pods."""
        self._cordoned[name] = now_s

    def uncordon(self, name: str) -> None:
        """We are about to open it again."""
        self._cordoned.pop(name, None)

    def unreserve(self, node: str, group: str, now_s: float) -> None:
        """The reservation pod of a GPU is deleted, not by the scheduler: pods may have to leave it."""
        self._unreserved.add((node, group))
        self.devices.lose(node, now_s)

    # What we see

    def seen(
        self, name: str, node: str, group: str, now_s: float, ended: bool = False, gpus: Collection[str] = ()
    ) -> None:
        """The watch shows the pod so; ``gpus``: the groups of GPUs that it shares.

        One that has ended leaves its room to others, although it is still there.
        """
        pod = self.pods.get(name)
        if pod is None:
            if node:
                _, since_s, _, _ = self._early.get(name, (node, now_s, ended, gpus))
                self._early[name] = node, since_s, ended, gpus
            return
        if group:
            self.groups[pod.wanted.workload] = group
        if node and not pod.node:
            self._bind(pod, node, now_s, ended, gpus)
        elif node != pod.node:
            self._fault(f"pod {name} was bound to {pod.node} and then to {node or 'none'}")
        elif ended:
            self._release(pod)

    def gone(self, name: str) -> None:
        """The watch shows its end."""
        self._early.pop(name, None)
        pod = self.pods.get(name)
        if pod is None or pod.is_gone:
            return
        pod.is_gone = True
        if not pod.leaves and any((pod.node, group) in self._unreserved for group in pod.gpus):
            self._end(name)
        elif not pod.leaves:
            self._fault(f"pod {name} was deleted by somebody else")
        self._release(pod)

    def look(self, now_s: float) -> None:
        """What has not happened in time?"""
        for pod in self.pods.values():
            overdue = pod.wanted.fits and pod.bound_s is None and not pod.leaves and not pod.is_late
            if overdue and self._waits_s(pod, now_s) > self.late_s:
                pod.is_late = True
                self._fault(f"pod {pod.wanted.name} was not bound in {self.late_s:g} s")
        for workload, names in self.gangs.items():
            pods = [self.pods[name] for name in names if name in self.pods]
            bound = sum(pod.bound_s is not None for pod in pods)
            if not 0 < bound < len(names) or any(pod.leaves for pod in pods):
                self._torn_since.pop(workload, None)
                continue
            torn_s = now_s - self._torn_since.setdefault(workload, now_s)
            self.torn_worst_s = max(self.torn_worst_s, torn_s)
            if torn_s > self.torn_s:
                self._torn_since[workload] = now_s
                self._fault(f"{bound} of {len(names)} pods of gang {workload} are bound for {torn_s:.0f} s")
        self.devices.look(now_s)

    def _bind(self, pod: Followed, node: str, now_s: float, ended: bool, gpus: Collection[str]) -> None:
        pod.node, pod.bound_s, pod.gpus = node, now_s, gpus
        if self.led_since_s is not None:
            self.waits_s.append(self._waits_s(pod, now_s))
        room = self.rooms.get(node)
        if room is None:
            if now_s - self._deleted.get(node, -STALE_S) >= STALE_S:
                self._fault(f"pod {pod.wanted.name} was bound to {node}, which is no node")
            self._end(pod.wanted.name)
            return
        closed_s = now_s - self._cordoned.get(node, now_s)
        if closed_s > STALE_S:
            self._fault(f"pod {pod.wanted.name} was bound to {node}, which is cordoned for {closed_s:.0f} s")
        if pod.wanted.share and len(set(gpus)) != pod.wanted.devices:
            self._fault(f"pod {pod.wanted.name} shares {len(set(gpus))} GPUs instead of {pod.wanted.devices}")
        if ended:
            return
        room.pods.add(pod.wanted.name)
        if pod.wanted.share:
            self.devices.hold(pod.wanted.name, node, gpus, pod.wanted.share, now_s)
        self._check_room(room, pod, node)

    def _waits_s(self, pod: Followed, now_s: float) -> float:
        """How long the pod has waited for the replica that stays."""
        return 0.0 if self.led_since_s is None else max(0.0, now_s - max(pod.made_s, self.led_since_s))

    def _check_room(self, room: Room, pod: Followed, node: str) -> None:
        held = [self.pods[name].wanted for name in room.pods if name in self.pods]
        gpus, milli_cpu = sum(one.gpus for one in held), sum(one.milli_cpu for one in held)
        gpus += self.devices.groups_on(node)
        if gpus > room.gpus or milli_cpu > room.milli_cpu:
            self._fault(f"node {node} is overfull with {pod.wanted.name}: {gpus} GPUs, {milli_cpu} millicores")
        beside = [one.name for one in held if one.workload == pod.wanted.workload]
        if pod.wanted.apart and len(beside) > 1:
            self._fault(f"pods {sorted(beside)} are to be apart, and are both on {node}")

    def _release(self, pod: Followed) -> None:
        room = self.rooms.get(pod.node)
        if room is not None:
            room.pods.discard(pod.wanted.name)
        self.devices.free(pod.wanted.name)

    def _end(self, name: str) -> None:
        """The workload of the pod ends by a fault of ours."""
        pod = self.pods.get(name)
        if pod is None or pod.leaves:
            return
        workload = pod.wanted.workload
        self.ended.add(workload)
        self.ended_count += 1
        for other in self.pods.values():
            if other.wanted.workload == workload:
                other.leaves = True

    def _fault(self, text: str) -> None:
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


def bound_twice(bindings: Mapping[str, int]) -> list[str]:
    """Of the bindings that were accepted, by uid: which pods had more than one."""
    return [f"the pod of uid {uid} was bound {count} times" for uid, count in sorted(bindings.items()) if count > 1]


def counted(uids: list[str]) -> Mapping[str, int]:
    """How often each occurs."""
    found: dict[str, int] = defaultdict(int)
    for uid in uids:
        found[uid] += 1
    return found
