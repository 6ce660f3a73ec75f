"""One job under one leader: its durable state, its last progress, the holders seen alive, the calls that wait.

Everything but the durable state is in memory and safe to lose: a new leader starts from the store and, until a grace
period has passed, takes everybody who is absent for present.
"""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from edl.operator.job_service.call_limits import CallLimits, OpenCalls
from edl.operator.job_service.calls import revision_of
from edl.operator.job_service.group_commit import Clock, DurableState
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.rendezvous.session import RendezvousSession
from edl.operator.job_service.reported_progress import ReportedProgress
from edl.operator.job_service.state import HeldSlot, JobState, role_slots
from edl.operator.throughput.sampling import Sampler
from edl.protocol.job_state import JobSnapshot, JobView, RoleView, RoundView, SlotView
from edl.protocol.pods import ReportedUsage, UsageReport
from edl.protocol.progress import LastProgress, ProgressReport
from edl.protocol.rounds import pod_of

GRACE = 15.0
MAX_UNKNOWN_PODS = 100  # that report usage before the operator has said which pods there are


class Session:
    """`open_state` makes the job's durable state; it is given what to call after each commit."""

    def __init__(
        self,
        record: JobRecord,
        open_state: Callable[[Callable[[], None]], DurableState],
        *,
        clock: Clock,
        led_since: float,
        all_calls: OpenCalls | None = None,
    ) -> None:
        self.record = record
        self.limits = CallLimits(all_calls or OpenCalls(), clock())
        self.state = open_state(self.notify_changed)
        self._reported, self.sampler = ReportedProgress(clock), Sampler(clock)
        self._usage: dict[str, tuple[UsageReport, float]] = {}  # by pod, with the time of the report
        self._clock, self._led_since = clock, led_since
        self._claimed_at: dict[str, float] = {}  # by holder, during this leadership
        self._seen: set[str] = set()  # holders whose pod was listed at least once during this leadership
        self._changed = asyncio.Event()
        self._reports: dict[str, float] = {}  # by pod, when each last reported progress to this leader
        self.rendezvous = RendezvousSession(clock=clock, led_since=led_since)

    def observe(self, record: JobRecord) -> None:
        """Takes the newest record, notes which holders are there, and wakes calls that wait if it differs."""
        if record != self.record:
            self.record = self.state.record = record
            self.notify_changed()
        self.sampler.observe(record.size, record.nodes)
        pods, slots = record.pods or frozenset(), self.state.committed.slots.values()
        self._seen = {slot.holder for slot in slots if slot.pod in pods or slot.holder in self._seen}
        self.rendezvous.observe(record, self.state)

    @property
    def progress(self) -> LastProgress | None:
        """What was reported to this leader, with its age."""
        return self._reported.last()

    def reported(self, report: ProgressReport) -> None:
        if self._reported.add(report):
            self.sampler.add(report, self.record.most)
        if report.pod in (self.record.pods or ()):
            self._reports[report.pod] = self._clock()

    def silence(self) -> dict[str, float]:
        """Seconds since each pod that is there last reported, of those that ever did. Pods that are not there are not
        remembered: a caller may name any."""
        pods, now = self.record.pods or frozenset(), self._clock()
        self._reports = {pod: when for pod, when in self._reports.items() if pod in pods}
        return {pod: now - when for pod, when in self._reports.items()}

    def used(self, report: UsageReport) -> None:
        known = self.record.pods
        kept = {pod: used for pod, used in self._usage.items() if known is None or pod in known}
        if known is None and report.pod not in kept and len(kept) >= MAX_UNKNOWN_PODS:
            return
        self._usage = {**kept, report.pod: (report, self._clock())}

    def usage(self, pod: str) -> ReportedUsage | None:
        """What the pod last said that it uses."""
        known = self._usage.get(pod)
        if known is None:
            return None
        report, at = known
        return ReportedUsage(report.cpu, report.memory, self._clock() - at)

    def close(self) -> None:
        """This leader has retired: calls that wait are refused, to be repeated to the next one."""
        self.rendezvous.close()
        self.state.close()
        self.notify_changed()

    def notify_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, timeout: float) -> None:
        """Returns when something changed, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            pass

    def note_claim(self, holder: str, state: JobState) -> None:
        """The holder has a slot in `state`; those that have none any more are forgotten."""
        holders = {slot.holder for slot in state.slots.values()}
        self._claimed_at = {known: at for known, at in self._claimed_at.items() if known in holders}
        self._claimed_at.setdefault(holder, self._clock())

    def gone(self, slot: HeldSlot) -> bool:
        """Whether the holder of a slot is certainly gone: its pod has ended, was there and is not, or did not appear in
        time.

        A pod may call us before the operator's cache has it; that one is absent but not gone.
        """
        pods = self.record.pods
        if pods is None or slot.pod in pods:
            return False
        if slot.pod in self.record.failed or slot.pod in self.record.succeeded:
            return True
        since = self._claimed_at.get(slot.holder, self._led_since)
        return slot.holder in self._seen or self._clock() - since > GRACE

    def view(self) -> JobView:
        record, state = self.record, self.state.committed
        snapshot = JobSnapshot(
            phase=record.phase,
            size=record.size,
            target=record.target,
            roles={role: self._role(role, state) for role in sorted(record.roles)},
            leaving=sorted(record.leaving),
            round=_round(state),
        )
        return JobView(
            **msgspec.structs.asdict(snapshot), revision=revision_of(snapshot), progress=self.progress or UNSET
        )

    def _role(self, role: str, state: JobState) -> RoleView:
        record = self.record.roles[role]
        slots = {
            index: SlotView(epoch=slot.epoch, holder=slot.holder, address=slot.address, gone=self.gone(slot))
            for index, slot in sorted(role_slots(state, role).items())
        }
        return RoleView(record.replicas, list(record.addresses), slots)


def _round(state: JobState) -> RoundView | UnsetType:
    if state.round is None:
        return UNSET
    pods = [pod_of(member.agent) for member in state.round.members]
    return RoundView(state.round.number, pods, state.round.over)
