"""What changes where Kueue was: who suspends jobs, which objects are converted, and what is left behind."""

from __future__ import annotations

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import KUEUE, KUEUE_KINDS, FoundObjects, count
from kai_sched.cli.migration.product_findings import installed_finding, parts_of, webhook_findings
from kai_sched.cli.migration.products import KUEUE as PRODUCT

PAGE = "docs/from-kueue.md"


def kueue_findings(found: FoundObjects) -> list[Finding]:
    """What there is of Kueue, and what changes. Empty where there is nothing."""
    result: list[Finding] = []
    if parts := parts_of(found, PRODUCT):
        remedy = f"jobs with a queue name stay suspended until Kueue admits them: follow {PAGE}"
        result.append(installed_finding(parts, remedy))
    kinds = {each.kind.kind: found.of(*each.kind) for each in KUEUE_KINDS}
    there = [f"{count(len(objects), kind)}" for kind, objects in kinds.items() if objects]
    if there:
        versions = sorted({version for each in KUEUE_KINDS for version in found.versions.get(each.kind, ())})
        remedy = f"`kai-sched convert-kueue {'--cluster' if found.live else 'FILE...'}` makes Queues of them"
        result.append(
            Finding(Gravity.WARNING, f"{PRODUCT}: queues", f"{', '.join(there)} ({', '.join(versions)})", remedy)
        )
    if workloads := found.of(KUEUE, "Workload"):
        text = f"{count(len(workloads), 'Workload')}: kai-sched does not read them"
        remedy = "jobs that are suspended are started by hand or made anew, without the label kueue.x-k8s.io/queue-name"
        result.append(Finding(Gravity.WARNING, f"{PRODUCT}: workloads", text, remedy))
    return result + webhook_findings(found, PRODUCT, "kueue-")
