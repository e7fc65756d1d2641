"""Which packages only the operator and its clients of an API server need, and what is said where they are missing.

``pip install kai-sched`` installs what files are answered with; ``kai-sched[operator]`` all (pyproject.toml).
"""

from __future__ import annotations

# Modules by the names that they are imported by; tests/unit/cli/test_offline_half.py compares with pyproject.toml.
OPERATOR_MODULES = frozenset(
    {
        "aiohttp",
        "cryptography",
        "kopf",
        "kubernetes_asyncio",
        "prometheus_client",
        "pynvml",
        "structlog",
        "uvloop",
    }
)
REMEDY = "pip install 'kai-sched[operator]'"


def missing_part(error: ModuleNotFoundError) -> str | None:
    """The message for a command that needs the operator's packages; None where something else is missing."""
    module = (error.name or "").partition(".")[0]
    if module not in OPERATOR_MODULES:
        return None
    return f"error: this needs a running cluster's packages ({module} is not installed): {REMEDY}"
