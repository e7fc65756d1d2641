"""Shares of GPU devices and MIG (semantics 8), counted anew from the pods of a node whenever somebody asks.

A device is a number on its node: first those in use when the cycle begins, then as many as anybody wants.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from kai_sched import Config
from kai_sched.model.objects import Node, Pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.oracle.records import Machine, Task

UNKNOWN_MEMORY = 1_000_000
MEMORY_LABEL = "nvidia.com/gpu.memory"
MIG_LABEL = "node-role.kubernetes.io/mig-enabled"
STRATEGY_LABEL = "nvidia.com/mig.strategy"
MIG = "nvidia.com/mig-"
HUNDREDTHS = 9  # digits to which sums of hundredths are rounded, so that they are exact


def device_memory(node: Node) -> int:
    """The memory of each device in MiB, or a million units where the node does not say."""
    text = node.labels.get(MEMORY_LABEL, "")
    value = int(text) if text.isdecimal() else 0
    value = value // 1_048_576 if value >= 1_048_576 else value
    return value or UNKNOWN_MEMORY


def knows_memory(node: Node) -> bool:
    """Whether the node has a label that says it."""
    return device_memory(node) != UNKNOWN_MEMORY


def mig_gpus(resource: str) -> int:
    """The GPUs that a device of this kind counts as."""
    found = re.match(r"nvidia\.com/mig-(\d+)g\.", resource)
    return int(found.group(1)) if found else 0


def kind_of(pod: Pod) -> str:
    """What kind of GPUs the pod asks for."""
    shape = pod.shape
    if shape.legacy_mig:
        return "legacy"
    if shape.share:
        return "memory" if shape.share.memory_mib else "fraction"
    if any(name.startswith(MIG) and amount for name, amount in shape.request):
        return "mig"
    return "whole" if dict(shape.request).get("gpu") else "none"


def price(pod: Pod, memory: int) -> float:
    """The GPUs that the pod counts for its queue where devices have so much memory; 0: nobody knows how much."""
    share, request = pod.shape.share, pod.shape.request
    if share is None:
        return sum(amount * mig_gpus(name) + amount * (name == "gpu") for name, amount in request)
    if share.memory_mib:
        return -(-100 * share.memory_mib // memory) * share.devices / 100 if memory else 0.0
    return max(1, int(share.portion * 100 + 0.5)) * share.devices / 100


def part(pod: Pod, memories: Iterable[int]) -> float:
    """The least that the share takes of all GPUs of any node; of a pod without a share its whole GPUs."""
    share = pod.shape.share
    if share is None:
        return dict(pod.shape.request).get("gpu", 0.0)
    known = [memory for memory in memories if memory != UNKNOWN_MEMORY or not share.memory_mib]
    least = min((_size(pod, memory) / memory for memory in known), default=0.0)
    return int(least * 2**20) / 2**20 * share.devices


def size(task: Task, machine: Machine) -> int:
    """The memory that the pod takes of each of its devices on this node."""
    return _size(task.pod, device_memory(machine.node))


def _size(pod: Pod, memory: int) -> int:
    assert pod.shape.share
    return pod.shape.share.memory_mib or max(1, int(pod.shape.share.portion * memory + 1e-6))


def holds(task: Task, later: bool) -> bool:
    """Whether the pod takes room of its node now, or ``later``; a promise that was taken back never does."""
    if task.status == "Releasing":
        return not later and task.before != "Pipelined"
    return later or task.status != "Pipelined"


def held(machine: Machine, later: bool) -> Counter[int]:
    """The memory that is held of each device, now or later."""
    found: Counter[int] = Counter()
    for task in machine.tasks:
        if holds(task, later):
            for device in task.devices:
                found[device] += size(task, machine)
    return found


def unreserved(machine: Machine, later: bool) -> int:
    """The devices in use for which there is no reservation pod yet."""
    return len(held(machine, later).keys() - machine.reserved)


def has_devices(task: Task, machine: Machine, later: bool, scored: bool = False) -> bool:
    """Whether the node has devices for a share, now or later; ``scored``: as v0.17.0 has it when it scores the node."""
    share, wanted = task.pod.shape.share, size(task, machine)
    assert share
    memory, now, then = device_memory(machine.node), held(machine, False), held(machine, True)
    used = [d for d in then if then[d] + wanted <= memory and d not in machine.closed]
    if not later and not scored:
        used = [d for d in used if 0 < now[d] <= memory - wanted]
    unused = _unused(machine, True)
    unused = unused if later else min(unused, _unused(machine, False))
    enough = len(used) + max(0.0, unused) >= share.devices
    # Where more is held than there is, what is left of single devices is not there.
    return wanted <= memory and task.part <= machine.loose("gpu", later=True) and enough


def _unused(machine: Machine, later: bool) -> float:
    """The whole devices that a pod with a share may open: each one needs a pod slot besides that of the pod.

    But for those that are being left whose reservation pod is there.
    """
    if not later:
        return min(machine.room("gpu", later), machine.room("pods", later) - 1)
    return min(machine.room("gpu", later), _slots(machine) + len(machine.reserved - held(machine, True).keys()))


def _slots(machine: Machine) -> float:
    return max(0.0, machine.room("pods", later=True) - 1)


def may_join(task: Task, machine: Machine) -> bool:
    """Whether some device in use has room for the pod, as what takes nothing of a device always has (9)."""
    then = held(machine, True)
    if task.pod.shape.share is None:
        return bool(then) and not task.asks("gpu")
    named = then.keys() - machine.closed
    return any(then[d] + size(task, machine) <= device_memory(machine.node) for d in named)


def choose(task: Task, machine: Machine, config: Config) -> tuple[list[int], bool]:
    """The devices that a pod with a share gets on a node that it fits, and whether it can have them now (8.4)."""
    share, wanted = task.pod.shape.share, size(task, machine)
    assert share
    spread = "gpuspread" in config.plugins and "gpupack" not in config.plugins
    memory, now, then = device_memory(machine.node), held(machine, False), held(machine, True)
    unused, unused_now = _unused(machine, True), _unused(machine, False)
    chosen: list[int] = []
    at_once, slots = True, _slots(machine)
    while len(chosen) < share.devices:
        used = [d for d in sorted(then) if d not in {*chosen, *machine.closed} and then[d] + wanted <= memory]
        if used and not (spread and unused >= 1):
            best = min(used, key=lambda d: max(now[d], then[d]) * (1 if spread else -1))
            at_once = at_once and 0 < now[best] <= memory - wanted
        else:
            clean = unused_now >= 1 or config.victims == "original"
            waiting = sorted(d for d in machine.reserved if not then[d] and d not in chosen)
            if slots >= 1:
                best = _open(chosen, now, then, clean)
            else:
                best = next((d for d in waiting if (now[d] == 0) == clean), waiting[0])
            slots -= best not in machine.reserved
            at_once = at_once and unused_now >= 1 and not now[best]
            unused, unused_now = unused - 1, unused_now - 1
        chosen.append(best)
    return chosen, at_once


def _open(chosen: list[int], now: Counter[int], then: Counter[int], clean: bool) -> int:
    """A device that nobody uses later; without ``clean`` rather one that is being left."""
    left = [d for d in sorted(now) if now[d] and not then[d] and d not in chosen]
    if left and not clean:
        return left[0]
    device = 0
    while now[device] or then[device] or device in chosen:
        device += 1
    return device


def home_has_room(task: Task, machine: Machine) -> bool:
    """Whether an evicted pod could stay on the devices that it has."""
    memory, wanted, then = device_memory(machine.node), size(task, machine), held(machine, True)
    opened = [d for d in task.devices if not then[d]]
    slots = 1 + len(set(opened) - machine.reserved)
    return (
        all(then[d] + wanted <= memory for d in task.devices)
        and (not opened or len(opened) <= machine.room("gpu", later=True))
        and slots <= machine.room("pods", later=True)
    )


def chooses_home(task: Task, machine: Machine, config: Config) -> bool:
    """Whether an evicted pod would get its devices again; of those that nobody uses one is as good as another."""
    if not home_has_room(task, machine) or not has_devices(task, machine, later=True):
        return False
    then, (chosen, _) = held(machine, True), choose(task, machine, config)
    return {d for d in task.devices if then[d]} == {d for d in chosen if then[d]}


def allows(task: Task, machine: Machine) -> bool:
    """Whether the type of the node is one for pods that ask for such GPUs (12.2, 2 and 3)."""
    kind, node = kind_of(task.pod), machine.node
    if kind == "none":
        return True
    if not has_mig(node):
        return kind != "mig" and (kind != "memory" or knows_memory(node))
    if kind == "legacy" or (kind == "mig" and machine.has_legacy):
        return False
    strategy = node.labels.get(STRATEGY_LABEL)
    if strategy in ("single", "mixed"):
        return kind == ("whole" if strategy == "single" else "mig")
    return kind != "memory" or knows_memory(node)


def has_mig(node: Node) -> bool:
    """Whether the node has MIG devices, by its label or else by its resources."""
    label = node.labels.get(MIG_LABEL)
    if label is not None:
        return label.lower() in ("1", "t", "true")
    return any(name.startswith(MIG) and amount > 0 for name, amount in node.allocatable.items())


def number_devices(machine: Machine, groups: dict[Task, tuple[str, ...]], reserved: set[str]) -> None:
    """Number the devices in use: those with a name by name, then those of pods that do not say, by pod."""
    names: set[tuple[bool, str, int]] = {(False, name, 0) for name in reserved}
    of_task: dict[Task, list[tuple[bool, str, int]]] = {}
    for task, known in groups.items():
        share = task.pod.shape.share
        assert share
        own = [(False, name, 0) for name in known[: share.devices]]
        own += [(True, task.pod.key, number) for number in range(len(own), share.devices)]
        of_task[task] = own
        names.update(own)
    ordered = sorted(names)
    machine.reserved = frozenset(ordered.index((False, name, 0)) for name in reserved)
    machine.closed = frozenset(d for d, (unnamed, *_) in enumerate(ordered) if unnamed)
    for task, own in of_task.items():
        task.devices = tuple(map(ordered.index, own))
