"""What keeps a pod from nodes because of claims that wait for volumes, or that its gang shares, in words."""

from __future__ import annotations

from dataclasses import replace

from kai_sched.lowering.lower import Lowered
from kai_sched.model.keys import object_key
from kai_sched.plan import reasons
from kai_sched.plan.reasons import NoFit

NO_VOLUME_TEXT = "no free PersistentVolume for its claims"


def with_volumes(t: int, facts: NoFit, lowered: Lowered) -> NoFit:
    """The facts with the claims of task ``t`` that wait for volumes."""
    text, asked = NO_VOLUME_TEXT, lowered.volumes.asked(int(lowered.snapshot.tasks.cls[t]))
    if not asked:
        return facts
    verdicts = {f"{text}: {asked}" if each == text else each: count for each, count in facts.verdicts.items()}
    return replace(facts, verdicts=verdicts)


def after_others(t: int, lowered: Lowered) -> str:
    """What keeps task ``t`` of a gang from nodes with room for it: what the pods before it took, or share with it."""
    pod, asked = lowered.pods[t], lowered.volumes.asked(int(lowered.snapshot.tasks.cls[t]))
    shared = [object_key(pod.namespace, claim.claim) for claim in pod.claims if claim.named]
    if asked:
        return f"after the pods of the gang before it there is no volume for its claims on a node with room: {asked}"
    if shared:
        names = reasons.some_of(sorted(shared))
        return f"after the pods of the gang before it no node with room can have what they share: ResourceClaim {names}"
    return ""
