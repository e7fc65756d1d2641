"""What the Config and the scheduler's config file have in common about GPU sharing: the fields and bounds of the memory
that is kept for drivers (API 1.6).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kai_sched.api.custom import Model, Quantity

RESERVE_PERCENT_MAX = 90.0
_PERCENT = "Percent of the memory of a device."
_MIN = "At least so much of each device, such as 256Mi."


class GpuMemoryReserve(Model):
    percent: Annotated[float, Field(ge=0, le=RESERVE_PERCENT_MAX)] | None = Field(None, description=_PERCENT)
    min: Quantity | None = Field(None, description=_MIN)
