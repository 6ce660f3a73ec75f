"""Small decisions that the looks of all kinds share: what is held back, what was made, how long a job is kept."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from edl.api import timestamp
from edl.api.status import Scale
from edl.api.training_job import TrainingScale
from edl.jobs.children import Child
from edl.jobs.intents import Intent
from edl.jobs.outcome import Observed, Refusal
from edl.jobs.slots import SlotPod

LEFTOVER_TOLD_AFTER = 10.0
S = TypeVar("S", Scale, TrainingScale)


def with_pause(scale: S, told: float | None) -> S:
    """What a change of size costs decides how soon the next one may follow; a tenth more or less does not."""
    known = scale.rescale_seconds
    if told is None or (known is not None and abs(told - known) <= known / 10):
        return scale
    return replace(scale, rescale_seconds=round(told, 2))


def waiting(observed: Observed, now: float) -> list[Refusal]:
    """Refusals after which it is too early to try again."""
    return [refusal for refusal in observed.refusals if refusal.retry_at > now]


def without(intents: Sequence[Intent], refusals: Sequence[Refusal]) -> list[Intent]:
    kept_back = {(refusal.kind, refusal.name) for refusal in refusals}
    return [intent for intent in intents if (intent.kind, intent.name) not in kept_back]


def worth_telling(observed: Observed, blocked: Sequence[Refusal], age: float) -> tuple[Refusal, ...]:
    """What an earlier job leaves behind is gone in a moment, as a rule, and then not worth a word."""
    known = observed.refusals
    young = age < LEFTOVER_TOLD_AFTER
    news = [refusal for refusal in blocked if refusal not in known and (refusal.foreign or not young)]
    return (*known, *news)


def is_made(child: Child, observed: Observed, trouble: SlotPod | None) -> bool:
    """Of what we do not watch. A pod that misses something makes us doubt that it is still there."""
    missed = trouble is not None and trouble.reason == "CreateContainerConfigError"
    return (child.kind, child.name) in observed.made and not missed


def expiry(ended: str | None, ttl: int | None) -> float | None:
    """When a job that has ended is to be deleted."""
    return timestamp.seconds(ended) + ttl if ttl is not None and ended else None


def soonest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
