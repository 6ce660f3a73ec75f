"""Small decisions that reconciles of all kinds share: back-off after refusals, objects not watched, expiry."""

from collections.abc import Sequence

from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.jobs.core.actions import Action, Create
from edl.jobs.core.children import Child
from edl.jobs.core.grant import S
from edl.jobs.core.outcome import Observed, Refusal
from edl.jobs.core.pods.slots import SlotPod

LEFTOVER_REPORTED_AFTER = 10.0


def with_pause(scale: S, reported: float | None) -> S:
    """What a change of size costs decides how soon the next one may follow; a tenth more or less does not."""
    known = scale.rescale_seconds
    if reported is None or (known is not None and abs(reported - known) <= known / 10):
        return scale
    return replace(scale, rescale_seconds=round(reported, 2))


def backing_off(observed: Observed, now: float) -> list[Refusal]:
    """Refusals after which it is too early to try again."""
    return [refusal for refusal in observed.refusals if refusal.retry_at > now]


def without_refused(actions: Sequence[Action], refusals: Sequence[Refusal]) -> list[Action]:
    """Only creations are kept back: a pod that cannot be resized in place must still be deleted and replaced."""
    kept_back = {(refusal.kind, refusal.name) for refusal in refusals}
    return [one for one in actions if not isinstance(one, Create) or (one.kind, one.name) not in kept_back]


def reportable_refusals(observed: Observed, blocked: Sequence[Refusal], age: float) -> tuple[Refusal, ...]:
    """What an earlier job leaves behind is gone in a moment, as a rule, and then not worth a word."""
    known = observed.refusals
    young = age < LEFTOVER_REPORTED_AFTER
    told = {(refusal.kind, refusal.name, refusal.foreign) for refusal in known}
    news = [
        refusal
        for refusal in blocked
        if (refusal.kind, refusal.name, refusal.foreign) not in told and (refusal.foreign or not young)
    ]
    return (*known, *news)


def already_created(child: Child, observed: Observed, startup_problem: SlotPod | None) -> bool:
    """Of what we do not watch. A pod that misses something makes us doubt that it is still there."""
    missed = startup_problem is not None and startup_problem.reason == "CreateContainerConfigError"
    return (child.kind, child.name) in observed.made and not missed


def expiry(ended: str | None, ttl: int | None) -> float | None:
    """When a job that has ended is to be deleted."""
    return timestamp.seconds(ended) + ttl if ttl is not None and ended else None


def soonest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
