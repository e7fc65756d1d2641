"""What is found of any other scheduler: its Deployments, its webhooks and the pods that name it."""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.migration.found import SCHEDULERS, WEBHOOKS, FoundObjects, count, name_of
from kai_sched.cli.migration.products import Product, products, versions_text
from kai_sched.model.problems import some_of


def parts_of(found: FoundObjects, product: str) -> list[Product]:
    """The Deployments of one product."""
    return [each for each in products(found) if each.name == product]


def installed_finding(parts: Sequence[Product], remedy: str) -> Finding:
    """Which versions of a product run, in which of its Deployments, of which there is at least one."""
    text = f"{versions_text(parts)} in {count(len(parts), 'Deployment')}: {some_of([one.deployment for one in parts])}"
    return Finding(Gravity.WARNING, f"{parts[0].name}: installed", text, remedy)


def webhook_findings(found: FoundObjects, product: str, prefix: str) -> list[Finding]:
    """The webhook configurations whose names begin so: objects are refused if nothing answers for them."""
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    configurations = [name_of(each) for kind in kinds for each in found.of(WEBHOOKS, kind)]
    names = sorted(dict.fromkeys(name for name in configurations if name.startswith(prefix)))
    if not names:
        return []
    text = f"{some_of(names)}: what they are asked about can be refused once {product} does not run"
    return [Finding(Gravity.WARNING, f"{product}: webhooks", text, "delete them when it is stopped")]


def pod_findings(found: FoundObjects, product: str, page: str) -> list[Finding]:
    """Pods that name the scheduler of the product."""
    pods = found.pods_of(SCHEDULERS[product])
    if not pods:
        return []
    text = f"{count(len(pods), 'pod')} with schedulerName {SCHEDULERS[product]}: kai-sched leaves them alone"
    remedy = f"those that run may end; workloads get schedulerName kai-scheduler and a queue: {page}"
    return [Finding(Gravity.WARNING, f"{product}: pods", text, remedy)]
