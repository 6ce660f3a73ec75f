"""Messages between trainers and the Brain. The OpenAPI document is made from these types.

What is decided on (features, samples, plans) is in `job_facts`: the same facts travel, are stored and decide.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edl.protocol.job_facts import (
    Capacity,
    Features,
    Incident,
    JobFacts,
    Limits,
    PlanEvaluation,
    PlanRecord,
    Positive,
    ResourcePlan,
    Roles,
    Sample,
    Slots,
)

Samples = Annotated[tuple[Sample, ...], Meta(max_length=1000)]
Outcomes = Literal["succeeded", "failed", "deleted"]


class Beginning(msgspec.Struct, omit_defaults=True):
    """A job begins, or somebody asks what one like this would get."""

    features: Features
    capacity: Capacity | None = None
    limits: Limits = Limits()


class Report(msgspec.Struct, omit_defaults=True):
    """What was measured and what was done since the last report. All of it may be sent again."""

    samples: Samples = ()
    plans: Annotated[tuple[PlanRecord, ...], Meta(max_length=200)] = ()
    incidents: Annotated[tuple[Incident, ...], Meta(max_length=200)] = ()


class Ask(Report, omit_defaults=True, kw_only=True):
    """A report, and the question what to do next. `present` and `slots` are the plan in force."""

    present: Roles
    slots: Slots = {}
    granted: Annotated[dict[str, int], Meta(max_length=16)] = {}
    capacity: Capacity | None = None
    remaining: Positive = 0.0
    pause: Positive = 0.0
    limits: Limits = Limits()

    @classmethod
    def about(cls, facts: JobFacts, limits: Limits, *, since: float = -1.0) -> "Ask":
        """The question that these facts make; of the samples only those after `since`, the others are known there."""
        return cls(
            samples=tuple(sample for sample in facts.samples if sample.time > since),
            plans=facts.plans,
            incidents=facts.incidents,
            present=facts.present,
            slots=facts.slots,
            granted=facts.granted,
            capacity=facts.capacity,
            remaining=facts.remaining,
            pause=facts.pause,
            limits=limits,
        )

    def facts(
        self,
        features: Features,
        samples: tuple[Sample, ...],
        plans: tuple[PlanRecord, ...],
        incidents: tuple[Incident, ...],
    ) -> JobFacts:
        """The facts to decide on: the job as the question has it, with all that was ever reported of it."""
        return JobFacts(
            features=features,
            present=self.present,
            slots=self.slots,
            granted=self.granted,
            samples=samples,
            plans=plans,
            incidents=incidents,
            capacity=self.capacity,
            remaining=self.remaining,
            pause=self.pause,
        )


class Answer(msgspec.Struct, omit_defaults=True):
    """`plan` absent: nothing is to change; `reason` says why, or why the plan. `judged`: what came of the last one."""

    reason: str
    plan: ResourcePlan | None = None
    judged: PlanEvaluation | None = None


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
