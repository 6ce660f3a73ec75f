"""What a running job was granted of its other roles (parameter servers, etcd, evaluators), beside its size.

More of them that are asked for since, by an edit or a new plan, wait like a minimum that was raised: until all of them
have room, what was granted goes on. As long as those that were granted have not run, fewer of them are in force: what
the job falls back to if the cluster refuses the others.
"""

from collections.abc import Callable, Mapping, Sequence

from edl.scheduler.snapshot.types import JobFacts

ANY = 2**31
Pods = tuple[int, ...]
PodsAt = Callable[[int], Pods]


def granted_at(facts: JobFacts, size: int) -> Pods | None:
    """Per role: the most that it may have until more is granted; None if it was granted all that it asks for."""
    wanted = facts.pods_at(size)
    most = [_known(facts.granted, role.name, count) for role, count in zip(facts.roles, wanted, strict=True)]
    lacks = [have < count and role != facts.lead for role, (have, count) in enumerate(zip(most, wanted, strict=True))]
    return tuple([have if less else ANY for have, less in zip(most, lacks, strict=True)]) if any(lacks) else None


def in_force_of(facts: JobFacts, granted: Pods) -> Pods | None:
    """Per role: as many as are in force of those granted, None if all are. Those that run once are."""
    if facts.in_force is None:
        return None
    held = [
        count if live >= count or role == facts.lead else min(count, facts.in_force.get(facts.roles[role].name, count))
        for role, (count, live) in enumerate(zip(granted, facts.live, strict=True))
    ]
    return tuple(held) if tuple(held) != granted else None


def pods_within(pods_at: PodsAt, most: Pods, size: int) -> Pods:
    return tuple(map(min, pods_at(size), most))


def by_name(facts: JobFacts, pods: Sequence[int]) -> dict[str, int]:
    """Of the roles that do not lead."""
    found = zip(facts.roles, pods, strict=True)
    return {role.name: count for index, (role, count) in enumerate(found) if index != facts.lead}


def _known(granted: Mapping[str, int] | None, name: str, wanted: int) -> int:
    """A status of an operator of before says nothing: what was asked for was granted."""
    return wanted if granted is None else min(wanted, granted.get(name, 0))
