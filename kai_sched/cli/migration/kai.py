"""What changes where KAI Scheduler was: its version, settings, shards and queues, groups that cannot be placed here."""

from __future__ import annotations

from collections import Counter

import msgspec

from kai_sched.api import core, names
from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import (
    SCHEDULERS,
    FoundObjects,
    Manifest,
    count,
    counts_text,
    name_of,
    part,
)
from kai_sched.cli.migration.product_findings import installed_finding, parts_of
from kai_sched.cli.migration.products import KAI, Product, minor, versions_text
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError, Warn, decode_part
from kai_sched.model.read.config import config_from_operator, config_from_shard
from kai_sched.model.read.custom import read_queue

PAGE = "docs/from-kai.md"
# The versions whose objects this page was written for.
OLDEST, NEWEST = (0, 12), (0, 18)
_wire = msgspec.json.Decoder(core.CustomObject)


def kai_findings(found: FoundObjects) -> list[Finding]:
    """What there is of KAI Scheduler, and what changes. Empty where there is nothing."""
    result: list[Finding] = []
    if parts := parts_of(found, KAI):
        result += _parts(parts)
    if not found.live:  # else the checks of the cluster say it
        for each in found.of(names.KAI_GROUP, "Config"):
            result += _settings(f"{KAI}: Config {name_of(each)}", each, "config")
    shards = found.of(names.KAI_GROUP, "SchedulingShard")
    for each in shards:
        result += _settings(f"{KAI}: SchedulingShard {name_of(each)}", each, "shard")
    result += _pools(shards)
    queues = found.of(names.QUEUE_GROUP, "Queue")
    if queues:
        result.append(Finding(Gravity.OK, f"{KAI}: queues", f"{count(len(queues), 'queue')}: read as they are"))
    for each in queues:
        result += _queue(each)
    result += _requests(found)
    if pods := found.pods_of(SCHEDULERS[KAI]):
        text = f"{count(len(pods), 'pod')}: those that run go on, those that wait are scheduled by kai-sched"
        result.append(Finding(Gravity.OK, f"{KAI}: pods", text))
    return result


def _parts(parts: list[Product]) -> list[Finding]:
    versions = {minor(each.version) for each in parts if each.version}
    operators = [each for each in parts if each.deployment.endswith("/kai-operator")]
    first = operators or parts
    remedy = f"before kai-sched starts, scale them to 0 replicas, {first[0].deployment} first: see {PAGE}"
    result = [installed_finding(parts, remedy)]
    if any(not OLDEST <= version <= NEWEST for version in versions):
        text = f"{versions_text(parts)} is outside of v0.12 to v0.18, for which {PAGE} was written"
        result.append(Finding(Gravity.WARNING, f"{KAI}: version", text, "upgrade KAI Scheduler first"))
    return result


def _settings(what: str, manifest: Manifest, kind: str) -> list[Finding]:
    """What the reader of the settings does not use of an object."""
    result: list[Finding] = []
    warn = _warner(what, result)
    raw = msgspec.json.encode(part(manifest, "spec") or {})
    try:
        if kind == "config":
            config_from_operator(raw, Config(), warn)
        else:
            config_from_shard(raw, Config(), warn)
    except FieldError as error:
        result.append(Finding(Gravity.ERROR, what, f"{error}; none of it is used", "correct the object"))
    return result or [Finding(Gravity.OK, what, "read as it is")]


def _warner(what: str, result: list[Finding]) -> Warn:
    return lambda field, message: result.append(Finding(Gravity.WARNING, what, f"{field}: {message}"))


def _pools(shards: list[Manifest]) -> list[Finding]:
    pools = {name_of(each): part(each, "spec", "partitionLabelValue") for each in shards}
    pools = {name: pool for name, pool in pools.items() if pool}
    if not pools:
        return []
    flags = "; ".join(f"--shard {name} --partition-label-value {pool}" for name, pool in sorted(pools.items()))
    text = f"{count(len(pools), 'shard')} of node pools: no operator starts their schedulers"
    remedy = f"start `kai-sched run --all-shards`, or one for each ({flags}), as in examples/shard.yaml"
    return [Finding(Gravity.WARNING, f"{KAI}: SchedulingShards", text, remedy)]


def _queue(manifest: Manifest) -> list[Finding]:
    result: list[Finding] = []
    what = f"{KAI}: Queue {name_of(manifest)}"
    try:
        read_queue(decode_part(_wire, msgspec.json.encode(manifest), ""), _warner(what, result))
    except FieldError as error:
        result.append(Finding(Gravity.ERROR, what, str(error)))
    return result


def _requests(found: FoundObjects) -> list[Finding]:
    """BindRequests that the binder of KAI Scheduler has not finished."""
    phases = Counter(
        str(part(each, "status", "phase") or "Pending") for each in found.of(names.QUEUE_GROUP, "BindRequest")
    )
    del phases["Succeeded"]
    if not phases:
        return []
    text = f"{counts_text(phases)}: their pods are between decision and node"
    remedy = "stop the scheduler of KAI Scheduler first, and its binder once there is none left"
    return [Finding(Gravity.WARNING, f"{KAI}: BindRequests", text, remedy)]
