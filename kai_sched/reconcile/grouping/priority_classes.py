"""Which priority class the PodGroup of a workload gets (labels, pod, default of the kind), and what holds if the
workload names one that does not exist (API 4.3).
"""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.api.custom import NAME_LENGTH
from kai_sched.model.field_errors import shown
from kai_sched.model.priorities import is_reserved
from kai_sched.reconcile.grouping.draft import Draft, GroupingCase

# Subject, field, and what is wrong with the class that it names.
_Passed = tuple[str, str, str]


def priority_class(case: GroupingCase, draft: Draft) -> str:
    """Return the first named class that exists, else that of the kind. Ignored names are noted."""
    passed: list[_Passed] = []
    chosen = _fixed(case, draft, passed) or _named(case, draft, passed) or _default(case, draft)
    for subject, field, fault in passed:
        case.note(subject, field, f"{fault}, so {chosen!r} holds: correct the name")
    return chosen


def _fixed(case: GroupingCase, draft: Draft, passed: list[_Passed]) -> str:
    name = draft.fixed_class
    if len(name) > NAME_LENGTH:
        passed.append((draft.owner.subject, "", f"no priority class has a name such as {shown(name)}"))
        return ""
    if is_reserved(name, case.pod.namespace):
        passed.append((draft.owner.subject, "", _reserved(name)))
        return ""
    return name


def _named(case: GroupingCase, draft: Draft, passed: list[_Passed]) -> str:
    for owner in draft.listed or (draft.source or draft.owner,):
        label = f"metadata.labels[{names.PRIORITY_CLASS_LABEL}]"
        choices = (
            (owner.labels.get(names.PRIORITY_CLASS_LABEL), owner, label),
            (case.pod.labels.get(names.PRIORITY_CLASS_LABEL), case.pod, label),
            (case.spec.priority_class_name, case.pod, "spec.priorityClassName"),
        )
        named, item, field = next((each for each in choices if each[0]), ("", owner, ""))
        if not named:
            continue
        if is_reserved(named, case.pod.namespace):
            passed.append((item.subject, field, _reserved(named)))
        elif named in case.settings.priority_classes:
            return named
        else:
            passed.append((item.subject, field, f"there is no priority class {shown(named)}"))
    return ""


def _default(case: GroupingCase, draft: Draft) -> str:
    for owner in draft.listed or (draft.source or draft.owner,):
        default = case.settings.default(owner.group, owner.kind)
        if default is not None and default.priority_name in case.settings.priority_classes:
            return str(default.priority_name)
    return draft.default_class


def _reserved(name: str) -> str:
    return f"priority class {shown(name)} counts in namespace {names.SYSTEM_NAMESPACE} only"
