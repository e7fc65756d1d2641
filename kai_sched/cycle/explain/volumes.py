"""What keeps a pod from nodes because of its PersistentVolumeClaims, or of what its gang shares, in words."""

from __future__ import annotations

from dataclasses import replace

from kai_sched.lowering.exclusive_claims import EXCLUSIVE
from kai_sched.lowering.lower import Lowered
from kai_sched.model.keys import object_key
from kai_sched.plan import reasons
from kai_sched.plan.amounts import show_size
from kai_sched.plan.reasons import NoFit
from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.solution import Solution

NO_VOLUME_TEXT = "no free PersistentVolume for its claims"
NO_CAPACITY_TEXT = "no capacity for a volume of its claims"
NOT_ATTACHABLE_TEXT = "volumes that it shares with other pods would exceed the attach limit of a driver"
ANTI_AFFINITY_TEXT = "pod anti-affinity against a pod there"


def with_volumes(t: int, facts: NoFit, lowered: Lowered, solution: Solution) -> NoFit:
    """The facts with the claims of task ``t``: those that wait for volumes, and those that another pod has got."""
    c = int(lowered.snapshot.tasks.cls[t])
    more = {NO_VOLUME_TEXT: _after(NO_VOLUME_TEXT, lowered.volumes.asked(c))}
    if NO_CAPACITY_TEXT in facts.verdicts:
        more[NO_CAPACITY_TEXT] = _after(NO_CAPACITY_TEXT, _capacity(c, lowered))
    if ANTI_AFFINITY_TEXT in facts.verdicts and (taken := _taken(t, lowered, solution)):
        own = lowered.pods[t].shape.anti_affinity
        more[ANTI_AFFINITY_TEXT] = f"{ANTI_AFFINITY_TEXT}, or {taken}" if own else taken
    verdicts: dict[str, int] = {}
    for text, count in facts.verdicts.items():
        said = more.get(text, text)
        verdicts[said] = verdicts.get(said, 0) + count
    return facts if verdicts == facts.verdicts else replace(facts, verdicts=verdicts)


def _after(text: str, more: str) -> str:
    return f"{text}: {more}" if more else text


def _capacity(c: int, lowered: Lowered) -> str:
    """What the claims of class ``c`` ask for that is to be made, and the largest volume where there is too little."""
    texts = [
        f"{claim.key} asks for {show_size(claim.size_bytes)} of storage class {claim.storage_class}, and the largest "
        f"volume that can be made there has {show_size(lowered.volumes.storage.most(claim))}"
        for claim in lowered.volumes.waiting.get(c, ())
        if (room := lowered.volumes.storage.with_room(claim)) is not None and not room.all()
    ]
    return reasons.some_of(texts)


def _taken(t: int, lowered: Lowered, solution: Solution) -> str:
    """Which claim of task ``t`` is for one pod alone and was given to another pod in this cycle; "" for none."""
    for key in lowered.pods[t].shape.claims:
        for other in lowered.exclusive.contested.get(key, ()):
            if other != t and solution.node[other] != NULL and solution.status[other] >= Status.PIPELINED:
                user = lowered.pods[other].key
                return f"its PersistentVolumeClaim {key} is for one pod alone ({EXCLUSIVE}), and pod {user} has got it"
    return ""


def after_others(t: int, lowered: Lowered) -> str:
    """What keeps task ``t`` of a gang from nodes with room for it: what the pods before it took, or share with it."""
    pod, asked = lowered.pods[t], lowered.volumes.asked(int(lowered.snapshot.tasks.cls[t]))
    for key in pod.shape.claims:
        for other in lowered.exclusive.contested.get(key, ()):
            if other != t and lowered.snapshot.tasks.job[other] == lowered.snapshot.tasks.job[t]:
                user = lowered.pods[other].key
                text = f"PersistentVolumeClaim {key} is for one pod alone ({EXCLUSIVE})"
                return f"{text}, and pod {user} of the gang needs it, too"
    shared = [object_key(pod.namespace, claim.claim) for claim in pod.claims if claim.named]
    if asked:
        return f"after the pods of the gang before it there is no volume for its claims on a node with room: {asked}"
    if shared:
        names = reasons.some_of(sorted(shared))
        return f"after the pods of the gang before it no node with room can have what they share: ResourceClaim {names}"
    return ""
