"""SchedulingShard, kai.scheduler/v1 (API 1.7): the fields, types and bounds of its CRD; ``model.read.config`` decides
what they change.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kai_sched.api.custom import DURATION_LENGTH, Int32, Model, Name, Quantity, Texts, schema
from kai_sched.api.status import OperandStatus

# Weights of past usage beyond these mean nothing, and their products must stay numbers.
K_VALUE_MAX = 1_000_000.0

Strategy = Literal["binpack", "spread"]


class PlacementStrategy(Model):
    gpu: Strategy | None = Field(None, description="Absent: binpack.")
    cpu: Strategy | None = Field(None, description="Absent: binpack.")


# Days and weeks are understood here, too.
LongDuration = Annotated[str, Field(max_length=DURATION_LENGTH)]


class MinRuntime(Model):
    preempt_min_runtime: LongDuration | None = Field(
        None, description="Default for queues that set none, a Go duration."
    )
    reclaim_min_runtime: LongDuration | None = Field(
        None, description="Default for queues that set none, a Go duration."
    )


class UsageParams(Model):
    half_life_period: str | None = None
    window_size: str | None = Field(None, description="Prometheus duration; absent: 1w.")
    window_type: Literal["sliding", "tumbling", "cron"] | None = None
    tumbling_window_start_time: Annotated[str | None, schema(format="date-time")] = None
    cron_string: str | None = Field(None, description="When a window starts, in UTC, with windowType cron.")
    fetch_interval: str | None = None
    staleness_period: str | None = None
    wait_timeout: str | None = None
    extra_params: Texts | None = None


class UsageDBConfig(Model):
    required_fields = ("clientType",)
    rules = (
        (
            "!(has(self.connectionString) && has(self.connectionStringEnvVar))",
            "connectionString and connectionStringEnvVar exclude each other",
            "",
        ),
    )

    client_type: str | None = Field(
        None, description="internal: accounts of the scheduler's own; prometheus: those of a Prometheus."
    )
    connection_string: str | None = None
    connection_string_env_var: str | None = None
    usage_params: UsageParams | None = None


class SearchBudgets(Model):
    """Time limits of the search for victims, Go durations; 0 is unlimited."""

    max_action_search_duration: Texts | None = None
    max_job_search_duration: str | None = None
    min_job_search_duration: str | None = None
    max_generator_search_duration: Texts | None = None


class PluginSettings(Model):
    enabled: bool | None = None
    priority: int | None = Field(None, description="Higher is asked first.")
    arguments: Texts | None = Field(None, description="Replace the default ones wholly.")


class ActionSettings(Model):
    enabled: bool | None = None
    priority: int | None = Field(None, description="Higher runs first.")


class ShardSpec(Model):
    args: Texts | None = Field(None, description="Scheduler flags by name; they win over all else.")
    placement_strategy: PlacementStrategy | None = None
    go_mem_limit_ratio: Annotated[float | None, Field(gt=0, le=1)] = Field(
        None, description="Accepted, without effect."
    )
    go_mem_limit: Quantity | None = Field(None, description="Accepted, without effect.")
    partition_label_value: Name | None = Field(None, description="The node pool that this shard is for.")
    queue_depth_per_action: dict[str, Int32] | None = Field(
        None, description="Jobs looked at per leaf queue; absent: all."
    )
    min_runtime: MinRuntime | None = None
    k_value: Annotated[float | None, Field(ge=-K_VALUE_MAX, le=K_VALUE_MAX)] = Field(
        None, description="How strongly past usage counts in the division; absent: 1."
    )
    usage_db_config: Annotated[UsageDBConfig | None, Field(alias="usageDBConfig")] = None
    scenario_search_budgets: SearchBudgets | None = None
    plugins: dict[str, PluginSettings] | None = None
    actions: dict[str, ActionSettings] | None = None


class SchedulingShardManifest(Model):
    """One scheduler, for the whole cluster or for one node pool."""

    spec: ShardSpec | None = None
    status: OperandStatus | None = None
