"""Tells whose plan a JobResource holds: its trainer's, or one that a person wrote or has edited since.

The operator writes for a trainer, and notes the digest of what it wrote. A spec of another digest is a person's. What a
person writes, and a trainer's answer to a pod that ran out of memory, waits for no freezing window (decision 24).
"""

import hashlib

import msgspec

from edl.api.labels import PLAN_DIGEST, PLAN_URGENT
from edl.jobs.easydl.followed_plan import named
from edl.jobs.easydl.job_resource import JobResource, PodResource, quantities


def author_notes(plan: JobResource, urgent: bool) -> dict[str, str]:
    """The annotations of a JobResource that is written for a trainer."""
    return {PLAN_DIGEST: _digest(plan), **({PLAN_URGENT: "true"} if urgent else {})}


def urgent_edit(plan: JobResource | None) -> str:
    """Names this version of a plan if no freezing window holds it up, else nothing."""
    if plan is None:
        return ""
    notes = plan.metadata.annotations
    by_trainer = notes.get(PLAN_DIGEST) == _digest(plan)
    if by_trainer and notes.get(PLAN_URGENT) != "true":
        return ""
    return f"{plan.metadata.name}/{plan.metadata.generation}"


def _digest(plan: JobResource) -> str:
    """Of what the plan means: an API server may write a number otherwise than it was sent."""
    roles = {name: (role.replicas, _amounts(role.resource)) for name, role in named(plan).items()}
    updates = {update.name: _amounts(update.resource) for update in plan.spec.resource_updation or ()}
    return hashlib.blake2b(msgspec.json.encode((roles, updates), order="sorted"), digest_size=8).hexdigest()


def _amounts(resource: PodResource | None) -> dict[str, str]:
    return {field: str(amount) for field, amount in quantities(resource).items()}
