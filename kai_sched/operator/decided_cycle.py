"""The record of a decided cycle (view, result, duration) that the cycle loop hands to delivery and reporting."""

from __future__ import annotations

from dataclasses import dataclass

from kai_sched.model.config import Config
from kai_sched.model.store import Cluster
from kai_sched.plan.result import CycleResult


@dataclass(frozen=True, slots=True)
class DecidedCycle:
    """One run of ``run_cycle``.

    Attributes
    ----------
    cluster
        The view that was decided on.
    result
        The decisions.
    seconds
        How long the decision took.
    config
        The settings that were in force.
    plan
        The digest of the decisions (``plan.plan_text``).
    cpu_s
        The CPU time that the decision used: far less than ``seconds`` where others took the CPU.
    """

    cluster: Cluster
    result: CycleResult
    seconds: float
    config: Config
    plan: str = ""
    cpu_s: float = 0.0
