"""What changes where YuniKorn was: the queues in its ConfigMap, placement rules, gangs in annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import FoundObjects, Manifest, count, part, place_of, texts
from kai_sched.cli.migration.product_findings import installed_finding, parts_of, pod_findings, webhook_findings
from kai_sched.cli.migration.products import YUNIKORN
from kai_sched.files import yaml_input
from kai_sched.files.errors import BrokenInput
from kai_sched.model.problems import some_of

PAGE = "docs/from-yunikorn.md"
QUEUES_KEY = "queues.yaml"
TASK_GROUPS = "yunikorn.apache.org/task-groups"
QUEUE_DEPTH_MAX = 64
# Settings of a queue that have no meaning here.
_NO_MEANING = ("adminacl", "submitacl", "limits", "maxapplications", "childtemplate", "properties")


def yunikorn_findings(found: FoundObjects) -> list[Finding]:
    """What there is of YuniKorn, and what changes. Empty where there is nothing."""
    result: list[Finding] = []
    if parts := parts_of(found, YUNIKORN):
        remedy = f"its admission controller gives pods its own schedulerName: stop it first, and follow {PAGE}"
        result.append(installed_finding(parts, remedy))
    for each in found.of("", "ConfigMap"):
        result += _config_map(each)
    gangs = [each for each in found.of("", "Pod") if TASK_GROUPS in texts(each, "metadata", "annotations")]
    if gangs:
        text = f"{count(len(gangs), 'pod')} with the annotation {TASK_GROUPS}, which is not read"
        remedy = "gangs are made of workloads, such as Jobs, JobSets and RayClusters: see docs/workloads.md"
        result.append(Finding(Gravity.WARNING, f"{YUNIKORN}: gangs", text, remedy))
    result += pod_findings(found, YUNIKORN, PAGE)
    return result + webhook_findings(found, YUNIKORN, "yunikorn-")


def _config_map(manifest: Manifest) -> list[Finding]:
    what = f"{YUNIKORN}: ConfigMap {place_of(manifest)}"
    text = part(manifest, "data", QUEUES_KEY)
    if not isinstance(text, str):
        return [Finding(Gravity.OK, what, f"without {QUEUES_KEY}: one queue for each namespace")]
    try:
        documents = [msgspec.json.decode(each) for each in yaml_input.documents(text.encode(), lambda _share: None)]
    except BrokenInput as error:
        return [Finding(Gravity.WARNING, what, f"{QUEUES_KEY} cannot be read: {error}")]
    partitions = [part(each, "partitions") for each in documents if isinstance(each, Mapping)]
    found = [each for several in partitions if isinstance(several, list) for each in several]
    result: list[Finding] = []
    for each in found:
        if isinstance(each, Mapping):
            result += _partition(what, each)
    return result


def _partition(what: str, partition: Mapping[str, Any]) -> list[Finding]:
    queues = list(_queues(partition, "", 0))
    leaves = [name for name, queue in queues if not queue.get("queues")]
    text = f"partition {partition.get('name')}: {count(len(queues), 'queue')} ({some_of(leaves)})"
    remedy = f"write them as Queues by {PAGE}: guaranteed is quota, max is limit"
    result = [Finding(Gravity.WARNING, what, text, remedy)]
    if partition.get("placementrules"):
        text = "placementrules: pods name their queue here"
        remedy = "label workloads kai.scheduler/queue; docs/tenancy.md says which namespace may use which queue"
        result.append(Finding(Gravity.WARNING, what, text, remedy))
    unused = {field: [name for name, queue in queues if queue.get(field)] for field in _NO_MEANING}
    return result + [
        Finding(Gravity.WARNING, what, f"{field} of {some_of(names)}: has no meaning here")
        for field, names in unused.items()
        if names
    ]


def _queues(node: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The queues below the node, by their full names."""
    below = node.get("queues")
    for each in below if isinstance(below, list) and depth < QUEUE_DEPTH_MAX else ():
        if isinstance(each, Mapping):
            name = f"{prefix}{each.get('name')}"
            yield name, each
            yield from _queues(each, f"{name}.", depth + 1)
