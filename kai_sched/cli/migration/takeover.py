"""Everything that ``kai-sched doctor`` says about other schedulers, in files or in a cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import ALL_KINDS, FoundObjects, found_in_items
from kai_sched.cli.migration.kai import kai_findings
from kai_sched.cli.migration.kueue import kueue_findings
from kai_sched.cli.migration.volcano import volcano_findings
from kai_sched.cli.migration.yunikorn import yunikorn_findings
from kai_sched.files.dump_info import DumpInfo
from kai_sched.files.items import read_items
from kai_sched.model.problems import Problem
from kai_sched.telemetry.pace import Pace

if TYPE_CHECKING:
    from kai_sched.cluster.client import Api

WHAT = "other schedulers"


def takeover_findings(found: FoundObjects) -> list[Finding]:
    """What there is of other schedulers and what changes with kai-sched, and what could not be read."""
    result = [
        *kai_findings(found),
        *kueue_findings(found),
        *volcano_findings(found),
        *yunikorn_findings(found),
    ]
    unread = [Finding(Gravity.WARNING, WHAT, f"{what} cannot be read: {why}") for what, why in found.unreadable]
    if not result and not unread:
        return [Finding(Gravity.OK, WHAT, "nothing of KAI Scheduler, Kueue, Volcano or YuniKorn")]
    return result + unread


async def takeover_of_cluster(api: Api) -> list[Finding]:
    """The findings about a running cluster, of which nothing is changed."""
    from kai_sched.cli.migration.reading import read_foreign
    from kai_sched.cluster.client import ApiFailure

    try:
        return takeover_findings(await read_foreign(api, ALL_KINDS))
    except ApiFailure as failure:
        return [Finding(Gravity.WARNING, WHAT, f"cannot be checked: {failure}")]


def takeover_of_files(paths: Sequence[str]) -> list[Finding]:
    """The findings about files of objects; a file that cannot be read is an error."""
    problems: list[Problem] = []
    dumps: list[DumpInfo] = []
    items = list(read_items(paths, sys.stdin.buffer, Pace(None), problems, dumps, {}))
    result = [Finding(Gravity.ERROR if each.fatal else Gravity.WARNING, "files", str(each)) for each in problems]
    if dumps:
        text = "a dump has what kai-sched reads, so that Kueue, Volcano, YuniKorn and Deployments are not in it"
        result.append(
            Finding(Gravity.WARNING, WHAT, text, "add the output of `kubectl get ... -A -o yaml` (docs/install.md)")
        )
    if any(each.fatal for each in problems) and not items:
        return result
    return result + takeover_findings(found_in_items(items))
