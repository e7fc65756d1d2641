"""The grouping rules for kinds without a gang: Deployment, Job, CronJob, bare pods, Spark, and all kinds without a
rule.
"""

from __future__ import annotations

from dataclasses import replace

from kai_sched.api import names
from kai_sched.reconcile.grouping.draft import (
    BUILD,
    INFERENCE,
    Draft,
    GroupingCase,
    group_name,
    number_in,
)
from kai_sched.reconcile.grouping.owners import Owner


def base(case: GroupingCase) -> Draft:
    """One group for all pods of the top owner; a gang only if an annotation asks for it. Every owner on the way may
    name the priority."""
    return Draft(case.owner, min_member=annotated_minimum(case.owner), listed=case.chain)


def build(case: GroupingCase) -> Draft:
    """As ``base``, for interactive work."""
    return Draft(case.owner, default_class=BUILD)


def inference(case: GroupingCase) -> Draft:
    """As ``base``, for inference services."""
    return Draft(case.owner, default_class=INFERENCE)


def pod(case: GroupingCase) -> Draft:
    """A pod without an owner: a group of its own, or part of a Spark application, whose driver owns its pods."""
    labels = case.pod.labels
    selector = labels.get(names.SPARK_SELECTOR_LABEL)
    if selector and names.SPARK_NAME_LABEL in labels:
        return Draft(case.owner, name=selector)
    owner = replace(case.owner, uid=case.owner.uid or case.owner.kind.lower())  # one in a file has no uid
    return Draft(owner, listed=case.chain)


def deployment(case: GroupingCase) -> Draft:
    """Replicas start one by one, each a group of its own."""
    return Draft(case.pod, source=case.owner, default_class=INFERENCE)


def job(case: GroupingCase) -> Draft:
    """One group for all pods; a gang only if an annotation asks for it."""
    owner = case.owner
    old = f"pg-{case.pod.name}-{owner.uid}"
    if case.view.group(case.pod.namespace, old) is not None:
        return Draft(owner, name=old)
    return Draft(owner, min_member=annotated_minimum(owner))


def stateful_set(case: GroupingCase) -> Draft:
    """As ``base``. Its controller makes one pod after the other, unless it is told to make all at once."""
    found = base(case)
    if (found.min_member or 0) > 1:
        policy = case.whole(case.owner).fields.at("spec").text("podManagementPolicy") or "OrderedReady"
        if policy != "Parallel":
            message = f"{policy} makes the second pod once the first one runs, and it starts with others: set Parallel"
            case.note(case.owner.subject, "spec.podManagementPolicy", message)
    return found


def annotated_minimum(owner: Owner) -> int:
    """What the annotation of the workload says, else 1. Raises GroupingError."""
    key = names.BATCH_MIN_MEMBER_ANNOTATION
    minimum = number_in(owner, owner.annotations, key, "metadata.annotations", 0)
    return 1 if minimum is None else minimum


def cron_job(case: GroupingCase) -> Draft:
    """One group for each run."""
    run = next((each for each in case.pod.references if each.kind == "Job" and each.api_version == "batch/v1"), None)
    if run is None:
        message = f"no Job, although {case.owner.subject} is above it: let the pods of a CronJob be made by its Jobs"
        raise case.pod.error("metadata.ownerReferences", message)
    return Draft(Owner(run.api_version, run.kind, run.namespace, run.name, run.uid), source=case.owner)


def runai_job(case: GroupingCase) -> Draft:
    """The group is named after the common prefix of the names of the pods."""
    owner, pod = case.owner, case.pod
    parallelism = case.whole(owner).fields.at("spec").count("parallelism") or 0
    old = f"pg-{pod.name}-{owner.uid}" if parallelism > 1 else group_name(owner)
    is_there = case.view.group(pod.namespace, old) is not None
    return Draft(owner, name=old if is_there else f"pg-{pod.name.rpartition('-')[0] or pod.name}-{owner.uid}")


def aml_job(case: GroupingCase) -> Draft:
    """A gang of as many pods as the job asks for nodes."""
    envs = case.whole(case.owner).fields.at("spec", "job", "options", "envs")
    key = "AZUREML_NODE_COUNT"
    if not envs.has(key):
        raise envs.error(key, "missing: give the number of nodes")
    value = envs.values.get(key)
    count = number_in(case.owner, {key: value}, key, envs.path(""), 0) if isinstance(value, str) else envs.count(key)
    return Draft(case.owner, min_member=count or 0)
