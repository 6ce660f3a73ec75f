"""What one leader knows of one job: its durable state, its progress, who was seen alive, who waits for news.

Everything but the durable state lives in memory and may be lost: a new leader starts from the store and, until a grace
has passed, takes everybody who is absent for present.
"""

import asyncio
import hashlib
from typing import Any

import msgspec

from edl.runtime.rendezvous.rounds import pod_of

from .durable import Clock, DurableState
from .meeting import Meeting
from .record import JobRecord, Progress
from .state import JobState, Slot, role_slots

GRACE = 15.0


class Session:
    def __init__(self, record: JobRecord, *, clock: Clock, led_since: float) -> None:
        self.record = record
        self.progress = Progress()
        self.reported_at: float | None = None
        self.usage: dict[str, Any] = {}  # by pod: what it said that it uses, and when
        self.state: DurableState  # set by the owner: its on_commit is our `wake`
        self._clock, self._led_since = clock, led_since
        self._claimed_at: dict[str, float] = {}  # by holder, during this leadership
        self._seen: set[str] = set()  # holders whose pod was listed at least once during this leadership
        self._news = asyncio.Event()
        self._reports: dict[str, float] = {}  # by pod, when each last reported progress to this leader
        self.meeting = Meeting(clock=clock, led_since=led_since)

    def observe(self, record: JobRecord) -> None:
        """Takes the newest record, notes which holders are there, and wakes whoever waits if it differs."""
        if record != self.record:
            self.record = record
            self.wake()
        pods = record.pods or frozenset()
        self._seen |= {slot.holder for slot in self.state.committed.slots.values() if slot.pod in pods}
        self.meeting.observe(record, self.state)

    def reported(self, progress: Progress, pod: str) -> None:
        """`pod` is who says so, if it says so."""
        self.progress, self.reported_at = self.progress.updated(progress), self._clock()
        if pod:
            self._reports[pod] = self.reported_at

    def silence(self) -> dict[str, float]:
        """Seconds since each pod that is there last reported, of those that ever did."""
        pods, now = self.record.pods or frozenset(), self._clock()
        self._reports = {pod: when for pod, when in self._reports.items() if pod in pods}
        return {pod: now - when for pod, when in self._reports.items()}

    def close(self) -> None:
        """Ends every promise of this leader: whoever waits is told to ask the next one."""
        self.meeting.close()
        self.state.close()
        self.wake()

    def wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def news(self, timeout: float) -> None:
        """Returns when something changed, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            pass

    def claimed(self, holder: str) -> None:
        self._claimed_at.setdefault(holder, self._clock())

    def gone(self, slot: Slot) -> bool:
        """Whether the holder of a slot is certainly gone: its pod was there and is not, or did not appear in time.

        A pod may call us before the operator's cache has it; that one is absent but not gone.
        """
        pods = self.record.pods
        if pods is None or slot.pod in pods:
            return False
        since = self._claimed_at.get(slot.holder, self._led_since)
        return slot.holder in self._seen or self._clock() - since > GRACE

    def view(self) -> dict[str, Any]:
        """The body of GET /job. Its revision is a digest: the same view has the same one under every leader."""
        record, state = self.record, self.state.committed
        body: dict[str, Any] = {
            "phase": record.phase,
            "size": record.size,
            "target": record.target,
            "roles": {role: self._role(role, state) for role in sorted(record.roles)},
            "leaving": sorted(record.leaving),
        }
        if state.round is not None:
            body["round"] = {
                "number": state.round.number,
                "pods": [pod_of(member.agent) for member in state.round.members],
                "over": state.round.over,
            }
        digest = hashlib.blake2b(msgspec.json.encode(body), digest_size=8).hexdigest()
        return {**body, "revision": digest, **self._progress()}

    def _progress(self) -> dict[str, Any]:
        """The last report and its age. No part of the revision: nobody who waits for a change waits for this."""
        if self.reported_at is None:
            return {}
        return {"progress": {**msgspec.to_builtins(self.progress), "age": self._clock() - self.reported_at}}

    def _role(self, role: str, state: JobState) -> dict[str, Any]:
        record = self.record.roles[role]
        slots = {
            str(index): {**msgspec.to_builtins(slot), "gone": self.gone(slot)}
            for index, slot in sorted(role_slots(state, role).items())
        }
        return {"replicas": record.replicas, "addresses": list(record.addresses), "slots": slots}
