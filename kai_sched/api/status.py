"""The status fields that Config and SchedulingShard share (API 1.6)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kai_sched.api.custom import Model, schema


class OperandCondition(Model):
    """A condition as the Kubernetes conventions have it."""

    required_fields = ("type", "status", "lastTransitionTime", "reason", "message")

    type: str | None = None
    status: Literal["True", "False", "Unknown"] | None = None
    observed_generation: Annotated[int | None, Field(ge=0), schema(format="int64")] = None
    last_transition_time: Annotated[str | None, schema(format="date-time")] = None
    reason: str | None = None
    message: str | None = None


class OperandStatus(Model):
    conditions: Annotated[
        list[OperandCondition] | None,
        schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = None
