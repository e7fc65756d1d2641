"""Which pods are bare pods, reservation, scaling or background pods, and which nodes are workers; the PodGroup and the
queue of a bare pod; the rank of a pod by the label task-priority.

Pure functions of objects and the config; ``lowering.cache`` and ``own_cells`` store their results in cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kai_sched.api import names
from kai_sched.lowering.limits import whole
from kai_sched.model.config import Config, in_pool
from kai_sched.model.constraints import Requirement
from kai_sched.model.label_selector import parse_label_selector
from kai_sched.model.objects import Node, Pod, PodGroup, Shape
from kai_sched.model.resources import GPU
from kai_sched.model.selectors import holds
from kai_sched.snapshot.gpu_kinds import GpuKind

_ORDERING_LABELS = frozenset({names.JOB_ROLE_LABEL, names.RAY_NODE_TYPE_LABEL, names.TASK_PRIORITY_LABEL})
PREEMPTIBILITIES = {"preemptible": True, "non-preemptible": False}


def group_of_bare_pod(pod: Pod) -> PodGroup:
    """The PodGroup that stands for a bare pod; a preemptibility label with another text leaves it to the priority."""
    return PodGroup(
        pod.namespace,
        pod.name,
        uid=pod.uid,
        created_ns=pod.created_ns,
        queue=pod.queue or names.DEFAULT_QUEUE,
        priority_class=pod.priority_class,
        preemptible=PREEMPTIBILITIES.get(pod.labels.get(names.PREEMPTIBILITY_LABEL, "")),
    )


def placing(shape: Shape, kind: GpuKind) -> object:
    """All that distinguishes shapes apart from requests and claims; ``kind`` is that of the shape.

    What is aligned to NUMA zones counts in full: a smaller pod may fit none where a larger one does.
    """
    near = (shape.affinity, shape.anti_affinity, shape.preferred_affinity)
    there = (shape.node_selector, shape.node_affinity, shape.tolerations, shape.host_ports)
    return near, there, len(shape.claims), shape.unsupported, kind, shape.numa


def gpu_kind(shape: Shape) -> GpuKind:
    """What kind of GPUs pods of this shape request."""
    if shape.legacy_mig:
        return GpuKind.LEGACY_MIG
    if shape.share:
        return GpuKind.MEMORY if shape.share.memory_mib else GpuKind.FRACTION
    kind = GpuKind.NONE
    for name, amount in shape.request:
        if amount and name.startswith(names.MIG_PREFIX):
            return GpuKind.MIG
        if amount and name == GPU:
            kind = GpuKind.WHOLE
    return kind


def is_bare(pod: Pod, config: Config) -> bool:
    """Whether the pod is scheduled as a group of its own: it is for this scheduler and has no PodGroup."""
    return not pod.group and pod.scheduler == config.scheduler_name and in_pool(pod.labels, config)


def is_reservation(pod: Pod, config: Config) -> bool:
    """Whether the pod reserves a GPU device for pods that share it.

    Users can set labels on their pods, so the namespace must be that of reservation pods, too. Asked of every pod that
    has the label ``app``.
    """
    ours = config.reservation
    return pod.namespace == ours.namespace and pod.labels.get(names.APP_LABEL) == ours.app_label


def is_scaling(pod: Pod, config: Config) -> bool:
    """Whether the pod only exists to make a cluster autoscaler add nodes."""
    return pod.labels.get(names.APP_LABEL) == names.SCALING_APP and pod.namespace == config.scaling.namespace


def exemptions(pods: Sequence[Pod], config: Config) -> tuple[list[int], list[int]]:
    """The places of the pods that consolidation must not move (6), and of the background pods (11.5)."""
    unsafe = [place for place, pod in enumerate(pods) if not pod.safe_to_consolidate]
    selector = background_selector(config)
    if selector is None:
        return unsafe, []
    first, *others = selector
    if first.op == "In":
        # Asked of all pods, and true of few: a look into the labels costs a fifth of the general test.
        found = [place for place, pod in enumerate(pods) if pod.labels.get(first.key) in first.values]
    else:
        found = [place for place, pod in enumerate(pods) if holds(first, pod.labels)]
    absent = [
        place
        for place in found
        if pods[place].scheduler == config.scheduler_name and all(holds(each, pods[place].labels) for each in others)
    ]
    return unsafe, absent


def background_selector(config: Config) -> tuple[Requirement, ...] | None:
    """What the labels of background pods meet.

    None: nothing, as the plugin is off, its selector is unreadable, or victims are those of v0.17.0.
    """
    arguments = config.plugins.get("backgroundpods")
    if arguments is None or config.victims != "minimal":
        return None
    text = arguments.get("labelSelector")
    if text is None:
        return (Requirement(names.BACKGROUND_LABEL, "In", ("true",)),)
    try:
        return parse_label_selector(text)
    except ValueError:
        return None


def has_worker_label(node: Node, config: Config) -> bool:
    """Whether pods may run on the node, as far as scheduling is restricted to worker nodes."""
    if not config.restrict_node_scheduling:
        return True
    return config.cpu_worker_label in node.labels or config.gpu_worker_label in node.labels


def task_priority(labels: Mapping[str, str]) -> tuple[int, int]:
    """The task order of the plugin taskorder (1.3): pods with a readable label, an unreadable one, none; by priority.

    Returns (rank, priority): the smaller rank comes first, then the larger priority.
    """
    text = labels.get(names.TASK_PRIORITY_LABEL)
    if text is None:
        return 2, 0
    try:
        return 0, whole(int(text))
    except ValueError:
        return 1, 0


def task_order(pods: Sequence[Pod], config: Config) -> npt.NDArray[np.int64]:
    """(4, pods) what orders the pods of a job (1.3), smaller first, each 0 without its plugin.

    Kubeflow's masters before others, Ray's heads before others, and by ``task_priority``.
    """
    # Most pods have no such labels, and one order.
    order = np.repeat(_labelled_order([{}], config), len(pods), axis=1)
    named = [place for place, pod in enumerate(pods) if not _ORDERING_LABELS.isdisjoint(pod.labels)]
    if named:
        order[:, named] = _labelled_order([pods[place].labels for place in named], config)
    return order


def _labelled_order(labels: Sequence[Mapping[str, str]], config: Config) -> npt.NDArray[np.int64]:
    """``task_order`` by the labels of each pod."""
    order = np.zeros((4, len(labels)), np.int64)
    if "kubeflow" in config.plugins:
        order[0] = [each.get(names.JOB_ROLE_LABEL) not in ("master", "launcher") for each in labels]
    if "ray" in config.plugins:
        order[1] = [each.get(names.RAY_NODE_TYPE_LABEL) != "head" for each in labels]
    if "taskorder" in config.plugins:
        ranks = [task_priority(each) for each in labels]
        order[2] = [rank for rank, _ in ranks]
        order[3] = [-priority for _, priority in ranks]
    return order
