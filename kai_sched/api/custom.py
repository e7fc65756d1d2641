"""The base class of the models of custom resources, and the types and bounds that they share: quantities, durations,
counts, names.

Types are strict, names on the wire are in camel case, and unknown fields are kept so that they can be reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kai_sched.api.legal import NAME_LENGTH as NAME_LENGTH

INT32_MAX = 2**31 - 1
DURATION_LENGTH = 64
DURATION_MAX_H = 87_600  # ten years


class Model(BaseModel):
    """A part of a custom resource.

    ``rules`` are CEL rules (rule, message, path of the field to name, or "" for the part itself) that the API server
    checks and that a schema alone cannot say; ``required_fields`` are those that the schema insists on although
    readers do without.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        extra="allow",
        strict=True,
        defer_build=True,
    )
    rules: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    required_fields: ClassVar[tuple[str, ...]] = ()

    def unknown_fields(self, path: str) -> Iterator[tuple[str, list[str]]]:
        """The path of every field that the model does not have, with the names of those that it has there."""
        known = sorted(field.alias or name for name, field in type(self).model_fields.items())
        for name in sorted(self.__pydantic_extra__ or {}):
            yield f"{path}.{name}", known
        for name, field in type(self).model_fields.items():
            yield from _unknown_in(getattr(self, name), f"{path}.{field.alias or name}")


def _unknown_in(value: object, path: str) -> Iterator[tuple[str, list[str]]]:
    if isinstance(value, Model):
        yield from value.unknown_fields(path)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _unknown_in(entry, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _unknown_in(entry, f"{path}.{key}")


def schema(**extra: Any) -> Any:
    """Keywords for the generated schema only: readers are more lenient than the API server."""
    return Field(json_schema_extra=extra)


# The API server takes any object here; what is in it belongs to Kubernetes, not to us.
AnyObject = Annotated[dict[str, Any], schema(**{"x-kubernetes-preserve-unknown-fields": True})]
Int32 = Annotated[int, Field(ge=-INT32_MAX - 1, le=INT32_MAX), schema(format="int32")]
Count32 = Annotated[int, Field(ge=0, le=INT32_MAX), schema(format="int32")]
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
Quantity = Annotated[str | int | float, schema(**{"x-quantity": True})]
Amounts = dict[str, Quantity]
Texts = dict[str, str]
# The bounds on lengths keep the cost of rules within what the API server allows.
DURATION_PATTERN = r"^([+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0)?$"
_IS_DURATION = f"self.matches(r'{DURATION_PATTERN}')"
_DURATION_RULES = [
    {"rule": _IS_DURATION, "message": "is not a duration: write it as 90s, 10m or 1h30m"},
    {
        "rule": f"self == '' || !{_IS_DURATION} || duration(self) <= duration('{DURATION_MAX_H}h')",
        "message": f"is longer than ten years: give at most {DURATION_MAX_H}h",
    },
]
Duration = Annotated[str, schema(maxLength=DURATION_LENGTH, **{"x-kubernetes-validations": _DURATION_RULES})]
# Names of other objects. Readers are as strict as the schema: nothing has a longer name.
Name = Annotated[str, Field(max_length=NAME_LENGTH)]
DNS_LABEL_LENGTH = 63
LABEL_KEY_LENGTH = 316
DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
LABEL_KEY_PATTERN = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)
