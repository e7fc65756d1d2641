"""The fields of the scheduler's config file (end of API 1.7): actions, tiers of plugins, victims, memory of GPUs."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kai_sched.api.custom import Int32, Model
from kai_sched.api.shard import UsageDBConfig
from kai_sched.api.sharing import GpuMemoryReserve


class FilePlugin(Model):
    name: str
    arguments: dict[str, str | int | float | bool] | None = None

    def disabled(self) -> list[str]:
        """The switches that turn off a part of the plugin and are set."""
        extra = self.__pydantic_extra__ or {}
        return sorted(key for key, value in extra.items() if _is_switch(key) and value is True)

    def unknown_fields(self, path: str) -> Any:
        return (
            (field, known) for field, known in super().unknown_fields(path) if not _is_switch(field.rsplit(".", 1)[1])
        )


def _is_switch(key: str) -> bool:
    return key.startswith("disable") or key.endswith("Disabled")


class Tier(Model):
    plugins: list[FilePlugin] | None = None


class SchedulerFile(Model):
    """The config file. Absent parts keep their values from other sources."""

    actions: str | None = None
    tiers: list[Tier] | None = None
    queue_depth_per_action: dict[str, Int32] | None = None
    usage_db_config: Annotated[UsageDBConfig | None, Field(alias="usageDBConfig")] = None
    scenario_search_budgets: Any = None
    victims: str | None = None
    gpu_memory_reserve: GpuMemoryReserve | None = None
