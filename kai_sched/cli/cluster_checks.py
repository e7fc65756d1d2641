"""What ``kai-sched doctor`` says about a cluster: served kinds, Config, queues, who schedules, webhooks, rights.

A part that the account may not read is a warning; the others are checked all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

from kai_sched.api import names
from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cluster.access_reviews import may
from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.installation import (
    InstalledDeployment,
    LeaseHolder,
    config_object,
    count_queues,
    is_named,
    lease_holders,
    scheduler_deployments,
    served_versions,
    server_version,
    webhook_configuration,
)
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.config import config_from_operator
from kai_sched.model.read.kinds import split_custom
from kai_sched.operator.http.certificate import MUTATING, SERVICE, VALIDATING
from kai_sched.operator.intake.sources import INSTALL, SOURCES
from kai_sched.reconcile.admission.types import admission_from_operator

# What is served once the definitions are installed; nothing is scheduled without the first two.
KINDS = (
    (names.QUEUE_VERSION, "queues"),
    (names.POD_GROUP_VERSION, "podgroups"),
    (names.BIND_REQUEST_VERSION, "bindrequests"),
    (names.CONFIG_VERSION, "configs"),
    (names.CONFIG_VERSION, "schedulingshards"),
    (names.TOPOLOGY_VERSION, "topologies"),
)
# Without these nothing of a cluster can be shown.
NEEDED = frozenset({"nodes", "pods", "queues", "podgroups"})
WEBHOOKS = (
    *(("mutatingwebhookconfigurations", name) for name in MUTATING),
    *(("validatingwebhookconfigurations", name) for name in VALIDATING),
)

Item = TypeVar("Item")


async def check_cluster(api: Api, namespace: str, now: datetime) -> list[Finding]:
    """All findings. ``namespace`` is where the scheduler is installed. Raises ApiFailure if no API server answers."""
    version = await server_version(api)
    found = [Finding(Gravity.OK, "cluster", f"{api.credentials().server}, Kubernetes {version}")]
    served: set[tuple[str, str]] = set()
    for group in (names.QUEUE_GROUP, names.KAI_GROUP):
        for each, resources in (await served_versions(api, group)).items():
            served.update((each, resource) for resource in resources)
    found += [_check_kind(each, resource, served) for each, resource in KINDS]
    config = Config()
    if (names.CONFIG_VERSION, "configs") in served:
        findings, config = await _read_config(api)
        found += findings
    if (names.QUEUE_VERSION, "queues") in served:
        found += await _checked("queues", _check_queues(api))
    found += await _check_scheduler(api, namespace, config.scheduler_name, now)
    for resource, name in WEBHOOKS:
        found += await _checked(f"webhook {name}", _check_webhook(api, resource, name))
    return found + await _checked("rights", _check_rights(api))


async def _checked(what: str, check: Awaitable[list[Finding]]) -> list[Finding]:
    """What the check finds; that it cannot be made is a finding, too."""
    try:
        return await check
    except ApiFailure as failure:
        return [_unknown(what, failure)]


async def _items(what: str, reading: Awaitable[list[Item]], found: list[Finding]) -> list[Item]:
    """What is read; none, and a finding more, where that fails."""
    try:
        return await reading
    except ApiFailure as failure:
        found.append(_unknown(what, failure))
        return []


def _unknown(what: str, failure: ApiFailure) -> Finding:
    if failure.is_missing_right:
        why = failure.message.partition("forbidden: ")[2]
        return Finding(Gravity.WARNING, what, f"cannot be checked: {why}", "give this account the right")
    return Finding(Gravity.WARNING, what, f"cannot be checked: {failure}")


def _check_kind(version: str, resource: str, served: set[tuple[str, str]]) -> Finding:
    group, _, short = version.partition("/")
    what = f"{resource}.{group}"
    others = sorted(
        each.partition("/")[2] for each, name in served if name == resource and each.startswith(f"{group}/")
    )
    if short in others:
        return Finding(Gravity.OK, what, ", ".join(others))
    text = f"served as {', '.join(others)} only, not as {short}" if others else "not installed"
    return Finding(Gravity.ERROR if resource in NEEDED else Gravity.WARNING, what, text, INSTALL)


async def _read_config(api: Api) -> tuple[list[Finding], Config]:
    """What is to say about the Config, and the settings with it; the defaults where it cannot be used."""
    what = f"config {names.CONFIG_NAME}"
    try:
        raw = await config_object(api)
    except ApiFailure as failure:
        return [_unknown(what, failure)], Config()
    if raw is None:
        return [Finding(Gravity.OK, what, "there is none: defaults apply, GPUs are not shared")], Config()
    problems: list[str] = []

    def warn(field: str, message: str) -> None:
        problems.append(f"{field}: {message}")

    try:
        spec = split_custom(raw, warn)[1]
        config = config_from_operator(spec, Config(), warn)
        sharing = admission_from_operator(spec).gpu_sharing and config.gpu_sharing
    except FieldError as error:
        return [Finding(Gravity.ERROR, what, f"{error}; none of it is used", "correct the object")], Config()
    found = [Finding(Gravity.WARNING, what, each) for each in problems]
    text = f"scheduler {config.scheduler_name}, GPU sharing is {'on' if sharing else 'off'}"
    return [*found, Finding(Gravity.OK, what, text)], config


async def _check_queues(api: Api) -> list[Finding]:
    if count := await count_queues(api):
        return [Finding(Gravity.OK, "queues", str(count))]
    remedy = "create some, or start the scheduler, which creates default-queue"
    return [Finding(Gravity.WARNING, "queues", "there is none: no pod can be scheduled", remedy)]


async def _check_scheduler(api: Api, namespace: str, scheduler: str, now: datetime) -> list[Finding]:
    unknown: list[Finding] = []
    deployments = await _items("scheduler", scheduler_deployments(api, namespace, scheduler), unknown)
    leases = await _items("scheduler", lease_holders(api, namespace), unknown)
    leases = [each for each in leases if is_named(each.lease, scheduler)]
    found = [_deployment(namespace, each) for each in deployments] + [_lease(namespace, each, now) for each in leases]
    running = [each for each in deployments if each.ready]
    originals = [each.name for each in running if not each.is_ours]
    if originals and len(originals) < len(running):
        text = f"KAI Scheduler runs beside kai-sched: {', '.join(originals)}"
        remedy = f"end one of them: kubectl -n {namespace} scale --replicas=0 deployment {' '.join(originals)}"
        found.append(Finding(Gravity.ERROR, "scheduler", text, remedy))
    if not unknown and not running and not any(each.until > now for each in leases):
        remedy = "kubectl apply -k manifests, or kai-sched run"
        found.append(Finding(Gravity.WARNING, "scheduler", f"none runs in namespace {namespace}", remedy))
    return found + unknown


def _deployment(namespace: str, each: InstalledDeployment) -> Finding:
    whose = "kai-sched" if each.is_ours else "KAI Scheduler"
    text = f"deployment {namespace}/{each.name} of {whose}, {each.ready} ready"
    return Finding(Gravity.OK if each.ready else Gravity.WARNING, "scheduler", text)


def _lease(namespace: str, each: LeaseHolder, now: datetime) -> Finding:
    name = f"lease {namespace}/{each.lease}"
    if each.until > now:
        return Finding(Gravity.OK, "scheduler", f"{name} is held by {each.holder}")
    text = f"{name} was last held by {each.holder}, until {each.until:%F %T} UTC"
    return Finding(Gravity.WARNING, "scheduler", text, "start the scheduler, or see its log")


async def _check_webhook(api: Api, resource: str, name: str) -> list[Finding]:
    what = f"webhook {name}"
    there = await webhook_configuration(api, resource, name)
    if there is None:
        remedy = "kubectl apply -f manifests/webhooks.yaml"
        return [Finding(Gravity.WARNING, what, "not installed: objects with mistakes are accepted", remedy)]
    whose = "kai-sched" if SERVICE in there.services else "others"
    if not there.trusted:
        remedy = "start kai-sched with --webhook-address, which writes the caBundle"
        return [Finding(Gravity.WARNING, what, "nobody is trusted to answer it, so that requests fail", remedy)]
    return [Finding(Gravity.OK, what, f"served by {', '.join(there.services)} ({whose})")]


async def _check_rights(api: Api) -> list[Finding]:
    """Whether the account may list all that ``run`` lists, and that ``simulate`` and its like need of a cluster."""
    wanted = [(source.kind[0], source.resource) for source in SOURCES]
    allowed = await asyncio.gather(*(may(api, "list", version, resource) for version, resource in wanted))
    refused = [resource for (_, resource), is_allowed in zip(wanted, allowed, strict=True) if not is_allowed]
    if not refused:
        return [Finding(Gravity.OK, "rights", f"may list all {len(wanted)} kinds that are read")]
    gravity = Gravity.ERROR if NEEDED & set(refused) else Gravity.WARNING
    remedy = "give this account the verb list, as manifests/rbac.yaml does for the scheduler"
    return [Finding(gravity, "rights", f"may not list {', '.join(refused)}", remedy)]
