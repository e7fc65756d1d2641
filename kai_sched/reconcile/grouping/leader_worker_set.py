"""The grouping rule for LeaderWorkerSet: each replica is a gang of a leader, workers and their segments (API 4.8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kai_sched.api import names
from kai_sched.model.objects import SubGroup, TopologyConstraint
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase, group_name, number_in
from kai_sched.reconcile.grouping.fields import Fields, whole_number
from kai_sched.reconcile.grouping.owners import Owner
from kai_sched.reconcile.grouping.segments import check_segments, topology_of_segments

LEADER, WORKERS = "leader", "workers"
STARTUP_POLICIES = ("LeaderCreated", "LeaderReady")
SUB_GROUP_POLICIES = ("LeaderWorker", "LeaderExcluded")


def leader_worker_set(case: GroupingCase) -> Draft:
    """The group of the pod's replica. A leader that its workers wait for starts alone."""
    owner = case.whole(case.owner)
    template = owner.fields.at("spec", "leaderWorkerTemplate")
    index = _worker_index(case)
    size = _size(case, template)
    startup = owner.fields.at("spec").text("startupPolicy") or STARTUP_POLICIES[0]
    if startup not in STARTUP_POLICIES:
        message = f"{startup!r} is not known: use {' or '.join(STARTUP_POLICIES)}"
        raise owner.error("spec.startupPolicy", message)
    draft = Draft(case.owner, name=f"{group_name(owner)}-group-{_group_index(case)}", min_member=size)
    alone = (SubGroup(LEADER, min_member=1),)
    if startup == "LeaderReady" and index == 0 and not case.spec.node_name:
        return replace(draft, min_member=1, sub_groups=alone, sub_group=LEADER)
    cut = _cut(case, owner, template, size)
    if cut is not None:
        return replace(draft, sub_groups=cut.sub_groups(), sub_group=cut.place(index))
    workers = (SubGroup(WORKERS, min_member=size - 1),) if size > 1 else ()
    return replace(draft, sub_groups=alone + workers, sub_group=LEADER if index == 0 else WORKERS)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Segments of ``length`` pods of a replica of ``size`` pods."""

    size: int
    length: int
    leader_excluded: bool
    topology: TopologyConstraint | None

    @property
    def is_even(self) -> bool:
        """Whether the workers alone fill the segments; the leader is then on top of the first."""
        return (self.size - 1) % self.length == 0

    @property
    def count(self) -> int:
        return (self.size - 1) // self.length if self.is_even else -(-self.size // self.length)

    def sub_groups(self) -> tuple[SubGroup, ...]:
        found = [SubGroup(LEADER, min_member=1)] if self.leader_excluded else []
        for i in range(self.count):
            members = self.length if self.is_even else min(self.length, self.size - i * self.length)
            name = f"segment-{i}"
            if i or self.leader_excluded:
                found.append(SubGroup(name, min_member=members, topology=self.topology))
                continue
            workers = members if self.is_even else members - 1
            found.append(SubGroup(name, min_sub_group=2, topology=self.topology))
            found.append(SubGroup(LEADER, parent=name, min_member=1))
            found.append(SubGroup(WORKERS, parent=name, min_member=workers))
        return tuple(found)

    def place(self, index: int) -> str:
        if index == 0:
            return LEADER
        segment = (index - 1 if self.is_even else index) // self.length
        return f"segment-{segment}" if segment or self.leader_excluded else WORKERS


def _cut(case: GroupingCase, owner: Owner, template: Fields, size: int) -> _Cut | None:
    policy = template.at("subGroupPolicy")
    metadata = template.at("workerTemplate", "metadata")
    annotations = metadata.texts("annotations")
    length, field = policy.count("subGroupSize"), policy.path("subGroupSize")
    key = names.SEGMENT_SIZE_ANNOTATION
    for texts, place in ((owner.annotations, "metadata.annotations"), (annotations, metadata.path("annotations"))):
        if length is None:
            length, field = number_in(owner, texts, key, place, 0), f"{place}[{key}]"
    if length is None:
        return None
    if not 1 < length <= size:
        raise owner.error(field, f"{length} is not a size that segments of {size} pods can have: give 2 to {size}")
    kind = policy.text("type") or SUB_GROUP_POLICIES[0]
    if kind not in SUB_GROUP_POLICIES:
        raise policy.error("type", f"{kind!r} is not known: use {' or '.join(SUB_GROUP_POLICIES)}")
    topology = topology_of_segments(case.pod, annotations, owner, metadata.path("annotations"))
    cut = _Cut(size, length, kind == "LeaderExcluded", topology)
    if cut.leader_excluded and not cut.is_even:
        message = f"{size - 1} workers without their leader do not fill segments of {length}: change one of the numbers"
        raise owner.error(field, message)
    check_segments(cut.count, length, owner.subject, field)
    return cut


def _size(case: GroupingCase, template: Fields) -> int:
    """The number of pods of the replica: as it was created, else as for new ones."""
    made_with = whole_number(case.pod.annotations.get(names.LWS_SIZE_ANNOTATION, ""))
    if made_with is not None and made_with > 0:
        return made_with
    size = template.count("size")
    return 1 if size is None else size


def _worker_index(case: GroupingCase) -> int:
    return _number(case, names.LWS_WORKER_INDEX_LABEL)


def _group_index(case: GroupingCase) -> int:
    return _number(case, names.LWS_GROUP_INDEX_LABEL)


def _number(case: GroupingCase, key: str) -> int:
    text = case.pod.labels.get(key, "")
    value = whole_number(text)
    if value is None or value < 0:
        message = f"{text!r} is not a number of 0 or more: let the pod be made by the LeaderWorkerSet's own controller"
        raise case.pod.error(f"metadata.labels[{key}]", message)
    return value
