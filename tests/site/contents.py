"""The order of the pages on the site: below which title each document stands. A new one needs no line here."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

HOME = "README"
MORE = "More"
# Each title with names of documents; ``*`` is any part of a name, and those of a pattern come in the order of the
# alphabet. What no line names stands below the last title.
TITLES = {
    "Start": ["docs/why", "docs/tutorial", "docs/concepts", "docs/install", "docs/tasks"],
    "Use": [
        "docs/workloads",
        "docs/kubernetes-groups",
        "docs/gpu-sharing",
        "docs/questions",
        "docs/explain",
        "docs/simulate",
        "docs/library",
        "docs/notebook",
        "docs/troubleshooting",
        "docs/pending",
    ],
    "Coming from elsewhere": ["docs/from-*", "docs/differences"],
    "Operate": [
        "charts/*",
        "docs/tenancy",
        "docs/past-usage",
        "docs/topology",
        "docs/numa",
        "docs/storage",
        "docs/autoscaling",
        "docs/background",
        "docs/steady-shares",
        "docs/shards",
        "docs/webhooks",
        "docs/metrics",
        "docs/runbook*",
        "docs/capacity",
        "docs/performance",
    ],
    "Reference": ["docs/reference/*", "docs/api", "docs/semantics", "docs/glossary"],
    "Project": [
        "CONTRIBUTING",
        "docs/develop",
        "docs/releasing",
        "ARCHITECTURE",
        "docs/modules",
        "docs/data-model",
        "tests/*",
    ],
    "Decisions": ["docs/adr/*"],
    MORE: ["SECURITY", "CHANGELOG"],
}


def contents(documents: Iterable[str]) -> dict[str, list[str]]:
    """The documents below each title, each of them once; a title without documents is left out."""
    left = sorted(set(documents) - {HOME})
    found: dict[str, list[str]] = {}
    for title, patterns in TITLES.items():
        for pattern in patterns:
            found.setdefault(title, []).extend(name for name in left if fnmatchcase(name, pattern))
            left = [name for name in left if not fnmatchcase(name, pattern)]
    found[MORE] += left
    return {title: names for title, names in found.items() if names}


def navigation(documents: Iterable[str]) -> str:
    """The tables of contents, as MyST directives that show nothing on the page itself."""
    tables = [
        "\n".join([f"```{{toctree}}\n:hidden:\n:caption: {title}\n", *(f"/{name}" for name in names), "```\n"])
        for title, names in contents(documents).items()
    ]
    return "\n".join(tables)
