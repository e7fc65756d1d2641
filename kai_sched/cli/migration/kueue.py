"""What changes where Kueue was: who suspends jobs, which objects are converted, and what is left behind."""

from __future__ import annotations

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import KUEUE, KUEUE_KINDS, WEBHOOKS, FoundObjects, count, name_of
from kai_sched.cli.migration.products import KUEUE as PRODUCT
from kai_sched.cli.migration.products import products, versions_text
from kai_sched.model.problems import some_of

PAGE = "docs/from-kueue.md"


def kueue_findings(found: FoundObjects) -> list[Finding]:
    """What there is of Kueue, and what changes. Empty where there is nothing."""
    result: list[Finding] = []
    parts = [each for each in products(found) if each.name == PRODUCT]
    if parts:
        text = f"{versions_text(parts)} in Deployment {some_of([each.deployment for each in parts])}"
        remedy = f"jobs with a queue name stay suspended until Kueue admits them: follow {PAGE}"
        result.append(Finding(Gravity.WARNING, f"{PRODUCT}: installed", text, remedy))
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


def webhook_findings(found: FoundObjects, product: str, prefix: str) -> list[Finding]:
    """The webhook configurations whose names begin so: objects are refused if nothing answers for them."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    configurations = [name_of(each) for kind in kinds for each in found.of(WEBHOOKS, kind)]
    names = sorted(dict.fromkeys(name for name in configurations if name.startswith(prefix)))
    if not names:
        return []
    text = f"{some_of(names)}: what they are asked about can be refused once {product} does not run"
    return [Finding(Gravity.WARNING, f"{product}: webhooks", text, "delete them when it is stopped")]
