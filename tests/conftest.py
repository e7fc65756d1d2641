"""What all tests share: the hypothesis profiles, and the folder of conformance data.

``make test-all`` runs with ``--hypothesis-profile=full``, ``make test`` with ``fast``. Both derive their examples from
the test itself, so that a failure is the same on every machine; ``explore`` looks for new ones and is run by hand.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

CONFORMANCE_DIR = "KAI_CONFORMANCE_DIR"

_SLOW_STRATEGIES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "fast", max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW_STRATEGIES
)
settings.register_profile(
    "full", max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW_STRATEGIES
)
settings.register_profile("explore", max_examples=2000, deadline=None, suppress_health_check=_SLOW_STRATEGIES)
settings.load_profile("fast")


def pytest_report_header() -> str:
    """Say where the conformance data come from, or that the tests on them are left out."""
    folder = os.environ.get(CONFORMANCE_DIR)
    if folder is None:
        return f"conformance data: left out ({CONFORMANCE_DIR} is not set)"
    return f"conformance data: {folder}"


def pytest_configure() -> None:
    """Stop before the first test where the conformance folder is named but is not there."""
    # Kernels run as the environment says, whatever cluster the first test has.
    importlib.import_module("kai_sched.cycle.run")
    folder = os.environ.get(CONFORMANCE_DIR)
    if folder is not None and not (Path(folder) / "fairshare.jsonl").is_file():
        raise pytest.UsageError(
            f"{CONFORMANCE_DIR} names {folder!r}, where no fairshare.jsonl is: correct the path, or unset the variable"
        )


@pytest.fixture(autouse=True)
def recursion_limit() -> Iterator[None]:
    """Each test begins with Python's own limit; whatever connects to an API server raises that of the process."""
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)
