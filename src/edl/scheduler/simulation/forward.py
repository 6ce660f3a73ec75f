"""Runs a cluster forward from a snapshot on virtual time: the shipping `plan`, jobs that end when their work is done.

A job ends if its model says what it has left; another is there for ever, since nobody can say otherwise. Pods come and
go at once, a change of size costs its pause, nobody arrives, and foreign pods stay as they are. Whoever needs to know
how sure that is runs it again with jobs that are slower or faster than their models.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Decision, plan
from edl.scheduler.settings import KEEPS_AFTER, Settings
from edl.scheduler.snapshot.types import JobFacts, RoleFacts, Snapshot

PLANS_AT_ONCE = 4  # at one moment, until nothing changes
PAUSE = 5.0  # seconds that a change of size costs where none was measured


class Happening(msgspec.Struct, frozen=True):
    """The size of a job changes; to 0 with its end."""

    time: float
    key: str
    before: int
    after: int
    ended: bool = False


class ForwardJob:
    """A job on its way. `facts` are those of the present moment."""

    def __init__(self, facts: JobFacts, now: float, slower: float) -> None:
        self.facts = replace(facts, unbound=())  # what has no node yet is placed by the first plan
        self.slower = slower
        model = facts.model
        self.left = model.remaining if model is not None else None
        self.as_of = self.working_from = now

    @property
    def size(self) -> int:
        facts = self.facts
        return facts.live[facts.lead] if facts.live else 0

    def advance(self, now: float) -> None:
        since, self.as_of = max(self.as_of, min(self.working_from, now)), now
        if self.left is not None and self.works:
            self.left = max(0.0, self.left - self.rate * (now - since))

    @property
    def works(self) -> bool:
        return self.facts.state == "active" and self.size >= max(1, self.facts.min)

    @property
    def rate(self) -> float:
        model = self.facts.model
        return model.rate(self.size) / self.slower if model is not None else 0.0

    def ends_at(self) -> float | None:
        """If nothing changes; None if nobody can say."""
        if self.left is None or not self.works or self.rate <= 0:
            return None
        return max(self.as_of, self.working_from) + self.left / self.rate

    def pause_until(self, now: float) -> None:
        pause = self.facts.rescale_seconds
        if pause is None:
            pause = self.facts.model.pause if self.facts.model is not None else None
        self.working_from = now + (PAUSE if pause is None else pause)


class Future:
    """`slower`: how many times as long as their models say jobs take."""

    def __init__(self, taken: Snapshot, memory: Memory, *, now: float, settings: Settings, slower: float = 1.0) -> None:
        self._taken, self._memory, self._settings = taken, memory, settings
        self.now = now
        self._nodes = list(taken.nodes)
        self._positions = {node.name: position for position, node in enumerate(taken.nodes)}
        self._committed = list(taken.committed)
        self._quotas = list(taken.quota_lines)
        self._counts = [dict(counter.counts) for counter in taken.counters]
        self.jobs = {facts.key: ForwardJob(facts, now, slower) for facts in taken.jobs}
        self._requeue: float | None = None
        self.plans = 0
        self._let_go()

    def keep_only(self, key: str) -> None:
        """All other jobs are gone."""
        for other in [one for one in self.jobs if one != key]:
            self._remove_all(self.jobs.pop(other))

    def run(self, until: float, most_plans: int) -> Iterator[Happening]:
        """What happens, in order, until nothing more will, the time is over, or enough was planned."""
        yield from self._plan()
        while self.plans < most_plans:
            coming = self._next_event()
            if coming is None or coming > until:
                return
            yield from self._advance(coming)
            yield from self._plan()

    def _next_event(self) -> float | None:
        times = [end for job in self.jobs.values() if (end := job.ends_at()) is not None]
        if self._requeue is not None and (times or self._requeue < self.now + KEEPS_AFTER + 1):
            times.append(self._requeue)
        return min(times, default=None)

    def _advance(self, now: float) -> Iterator[Happening]:
        self.now = max(self.now, now)
        for key, job in list(self.jobs.items()):
            ends = job.ends_at()
            job.advance(self.now)
            if ends is not None and ends <= self.now + 1e-6:
                yield Happening(self.now, key, job.size, 0, ended=True)
                self._remove_all(job)
                del self.jobs[key]

    def _plan(self) -> Iterator[Happening]:
        for _ in range(PLANS_AT_ONCE):
            made = plan(self._snapshot(), self._memory, now=self.now, settings=self._settings)
            self.plans += 1
            self._memory = made.memory
            by_key = {decision.uid or _key(decision): decision for decision in made.jobs}
            found = [one for key, job in self.jobs.items() for one in self._apply(key, job, by_key.get(key))]
            yield from found
            if not found:
                break
        waits = [since + math.nextafter(KEEPS_AFTER, math.inf) for since in self._memory.waiting.values()]
        later = [time for time in (made.requeue_at, *waits) if time is not None and time > self.now]
        self._requeue = min(later, default=None)

    def _snapshot(self) -> Snapshot:
        counters = [
            replace(counter, counts=counts) for counter, counts in zip(self._taken.counters, self._counts, strict=True)
        ]
        return replace(
            self._taken,
            nodes=tuple(self._nodes),
            jobs=tuple(job.facts for job in self.jobs.values()),
            terminating=(),
            quota_lines=tuple(self._quotas),
            counters=tuple(counters),
            committed=(self._committed[0], self._committed[1]),
        )

    def _apply(self, key: str, job: ForwardJob, decision: Decision | None) -> Iterator[Happening]:
        facts = job.facts
        if decision is None or facts.state != "active":
            return
        before = job.size
        bound = [self._moved(role, counts, decision) for role, counts in zip(facts.roles, _bound(facts), strict=True)]
        changed = bound != [dict(counts) for counts in _bound(facts)]
        if not changed and decision.target == (facts.target or 0):
            return
        live = tuple(sum(counts.values()) for counts in bound)
        size = live[facts.lead] if live else 0
        served = facts.pod_seconds + max(0.0, facts.running * self.now - facts.started_sum / 1000)
        job.facts = replace(
            facts,
            bound=tuple(bound),
            live=live,
            current=size,
            running=size,
            target=decision.target,
            minimum=decision.minimum,
            granted=decision.roles if facts.granted is not None else None,
            in_force=decision.in_force or None,
            pod_seconds=served,
            started_sum=round(size * self.now * 1000),
            started=facts.started or size >= facts.min > 0,
            last_scale_time=self.now if decision.target != facts.target else facts.last_scale_time,
        )
        if changed and before:
            job.pause_until(self.now)
        if size != before:
            yield Happening(self.now, key, before, size)

    def _moved(self, role: RoleFacts, counts: Mapping[int, int], decision: Decision) -> dict[int, int]:
        pods = Counter(dict(counts))
        for name, number in decision.leavers.get(role.name, {}).items():
            position = self._positions.get(name)
            if position is not None:
                number = min(number, pods[position])
                pods[position] -= number
                self._occupy(position, role, -number)
        for name, number in decision.placements.get(role.name, {}).items():
            position = self._positions[name]
            pods[position] += number
            self._occupy(position, role, number)
        return {position: number for position, number in pods.items() if number > 0}

    def _occupy(self, position: int, role: RoleFacts, pods: int) -> None:
        """The pods of a role come to a node, or (negative) go."""
        shape = role.shape if pods > 0 else role.returned
        self._take(position, shape.requests, shape.limits, pods)
        for line, amount in role.charges:
            self._quotas[line] = replace(self._quotas[line], used=self._quotas[line].used + amount * pods)
        for counter in shape.counted:
            domain = self._taken.counters[counter].domains[position]
            if domain is not None:
                self._counts[counter][domain] = self._counts[counter].get(domain, 0) + pods

    def _take(self, position: int, requests: Sequence[int], limits: tuple[int, int], pods: int) -> None:
        node = self._nodes[position]
        self._nodes[position] = replace(
            node,
            used=tuple(have + amount * pods for have, amount in zip(node.used, requests, strict=True)),
            free=tuple(have - amount * pods for have, amount in zip(node.free, requests, strict=True)),
        )
        if not node.refusal:
            self._committed = [have + amount * pods for have, amount in zip(self._committed, limits, strict=True)]

    def _remove_all(self, job: ForwardJob) -> None:
        facts = job.facts
        for role, counts in zip(facts.roles, _bound(facts), strict=True):
            for position, pods in counts.items():
                if position >= 0:
                    self._occupy(position, role, -pods)

    def _let_go(self) -> None:
        """What terminates now is gone soon."""
        for pod in self._taken.terminating:
            if pod.node >= 0:
                self._take(pod.node, pod.requests, pod.limits, -1)
            for line, amount in pod.charges:
                self._quotas[line] = replace(self._quotas[line], used=self._quotas[line].used - amount)


def _bound(facts: JobFacts) -> Sequence[Mapping[int, int]]:
    return facts.bound or tuple({} for _ in facts.roles)


def _key(decision: Decision) -> str:
    return f"{decision.namespace}/{decision.name}/{decision.kind}"
