"""The vocabulary that the specs of our kinds are written in: base classes, field types, rules between fields.

A field is declared once, with its type, bounds and description; decoding, the CRDs and the reference derive from it.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

# Index 999999 still fits into a pod's name, see `names.JOB_NAME_MAX`.
MAX_INSTANCES = 1_000_000
MAX_INT32 = 2**31 - 1


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, kw_only=True):
    """What users write: an unknown field is an error, an absent one is None until it is defaulted in memory."""


class Status(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """What the operator writes: an unknown field is one of a newer operator, and skipped."""


Count = Annotated[int, Meta(ge=0, le=MAX_INT32)]
Instances = Annotated[int, Meta(ge=1, le=MAX_INSTANCES)]
InstancesOrNone = Annotated[int, Meta(ge=0, le=MAX_INSTANCES)]
Seconds = Annotated[int, Meta(ge=0, le=MAX_INT32)]
Text = Annotated[str, Meta(min_length=1)]
QuantityValue = Annotated[str | int | float, Meta(extra={"quantity": True})]
Priority = Annotated[str | Annotated[int, Meta(ge=1, le=MAX_INT32)], Meta(extra={"priority": True})]
Template = Annotated[dict[str, Any], Meta(extra={"template": True})]
Anything = Annotated[dict[str, Any], Meta(extra={"anything": True})]


class Resources(Spec, frozen=True, kw_only=True):
    """Compute resources of one pod, as in a Kubernetes container."""

    requests: Annotated[
        dict[str, QuantityValue] | None,
        Meta(description="What is set aside for a pod, e.g. cpu: 500m, memory: 1Gi. Omitted: the limits."),
    ] = None
    limits: Annotated[
        dict[str, QuantityValue] | None,
        Meta(description="What a pod may use at most, e.g. cpu: 800m, memory: 1Gi, nvidia.com/gpu: 1."),
    ] = None


class NotMore(msgspec.Struct, frozen=True):
    """Rule: `low`, if given, is at most `high`, or `otherwise` where `high` is omitted (neither given: no rule).

    Paths are wire names, beginning at the struct that holds the rule.
    """

    low: str
    high: str
    otherwise: str = ""


class AnyOf(msgspec.Struct, frozen=True):
    """Rule: at least one of these is given."""

    fields: tuple[str, ...]


class RequiredUnless(msgspec.Struct, frozen=True):
    """Rule: `field` is given, unless `other` has one of these values."""

    field: str
    other: str
    values: tuple[str, ...]


class Unchanging(msgspec.Struct, frozen=True):
    """Rule: this cannot be edited, for the reason given."""

    field: str
    reason: str


Rule = NotMore | AnyOf | RequiredUnless | Unchanging
