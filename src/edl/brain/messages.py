"""What is said between a trainer and the Brain. The OpenAPI document is made from these types."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from .policy.facts import Capacity, Features, Incident, Plan, PlanRecord, Positive, Roles, Sample
from .policy.judge import Judgement
from .policy.units import Resource

Samples = Annotated[tuple[Sample, ...], Meta(max_length=1000)]
Outcomes = Literal["succeeded", "failed", "deleted"]


class Beginning(msgspec.Struct, omit_defaults=True):
    """A job begins, or somebody asks what one like this would get."""

    features: Features
    capacity: Capacity | None = None


class Report(msgspec.Struct, omit_defaults=True):
    """What was measured and what was done since the last report. All of it may be sent again."""

    samples: Samples = ()
    plans: Annotated[tuple[PlanRecord, ...], Meta(max_length=200)] = ()
    incidents: Annotated[tuple[Incident, ...], Meta(max_length=200)] = ()


class Ask(Report, omit_defaults=True, kw_only=True):
    """A report, and the question what to do next. `present` and `slots` are the plan in force."""

    present: Roles
    slots: dict[str, Resource] = {}
    granted: dict[str, int] = {}
    capacity: Capacity | None = None
    remaining: Positive = 0.0
    pause: Positive = 0.0


class Answer(msgspec.Struct, omit_defaults=True):
    """`plan` absent: nothing is to change; `reason` says why, or why the plan. `judged`: what came of the last one."""

    reason: str
    plan: Plan | None = None
    judged: Judgement | None = None


class Ending(msgspec.Struct):
    outcome: Outcomes


class JobLine(msgspec.Struct, omit_defaults=True):
    """One job in a list."""

    job: str
    features: Features
    created: float
    updated: float
    outcome: str = ""


class JobDetail(msgspec.Struct, omit_defaults=True):
    job: JobLine
    plans: tuple[PlanRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    incidents: tuple[Incident, ...] = ()


class Refusal(msgspec.Struct):
    error: str
    code: str
