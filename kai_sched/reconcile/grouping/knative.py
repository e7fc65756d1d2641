"""The grouping rule for Knative services: the pods of a revision start together up to its minimum, or each by itself
(API 4.4).
"""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.reconcile.grouping.draft import INFERENCE, Draft, GroupingCase, group_name
from kai_sched.reconcile.grouping.fields import whole_number
from kai_sched.reconcile.grouping.owners import Owner


def service(case: GroupingCase) -> Draft:
    """A group for the revision; one for each pod if gangs are off, or pods were grouped that way before."""
    label = names.KNATIVE_REVISION_LABEL
    name = case.pod.labels.get(label, "")
    revision = case.named("serving.knative.dev/v1", "Revision", name, whole=False) if name else None
    if revision is None:
        message = f"{name!r} names no Revision that can be read: let the pod be made by Knative's own controllers"
        raise case.pod.error(f"metadata.labels[{label}]", message)
    if not case.settings.config.gang_schedule_knative or _are_single(case, revision):
        return Draft(case.pod, source=case.owner, fixed_class=INFERENCE, has_policy=False, has_topology=False)
    least = whole_number(revision.annotations.get(names.KNATIVE_MIN_SCALE_ANNOTATION, ""))
    return Draft(
        revision,
        source=case.owner,
        min_member=1 if least is None or least < 0 else least,
        default_class=INFERENCE,
        has_policy=False,
        has_topology=False,
    )


def _are_single(case: GroupingCase, revision: Owner) -> bool:
    """Whether the revision's pods are in groups of their own already."""
    pods = [
        pod
        for pod in case.view.pods(case.pod.namespace, names.KNATIVE_REVISION_LABEL, revision.name)
        if pod.group and pod.group != group_name(revision)
    ]
    return len({pod.group for pod in pods}) > 1 or any(pod.group == f"pg-{pod.name}-{pod.uid}" for pod in pods)
