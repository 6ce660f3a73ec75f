"""Follows the job through the job service, and reports its progress there. Training goes on without either."""

import logging
import time
from collections.abc import Callable

import msgspec

from edl.protocol.job_state import JobView, RoleView
from edl.protocol.progress import ProgressReport
from edl.runtime.service_client import Service, ServiceDownError, ServiceRefusalError
from edl.runtime.tasks.shared_state import ObservedJob, ServerSlot, SharedState

log = logging.getLogger(__name__)

WAIT = 20.0
REPORT = 1.0


def observe_job(job: JobView) -> ObservedJob:
    """The parts of GET /job that matter to a master."""
    role, leaving = job.roles.get("pserver", RoleView()), frozenset(job.leaving)
    slots = {
        ServerSlot(index, slot.epoch, slot.address): slot.pod
        for index, slot in role.slots.items()
        if slot.address and not slot.gone
    }
    return ObservedJob(
        running=job.size,
        wanted=role.replicas,
        members=tuple(slots),
        departing=frozenset(member for member, pod in slots.items() if pod in leaving),
        leaving=leaving,
    )


def has_successor(job: JobView, epoch: int) -> bool:
    """Whether another process holds the master's slot. A master with nothing to write learns it only here."""
    slot = job.slot("master", 0)
    return slot is not None and slot.epoch > epoch


def follow(shared: SharedState, service: Service, on_fenced: Callable[[str], None]) -> None:
    """Keeps the observed job up to date until the master stops."""
    revision = ""
    while not shared.stopping:
        try:
            job = service.job(revision, wait=WAIT)
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("job service: %s", error)
            time.sleep(1.0)
            continue
        if job is not None:
            revision = job.revision
            if has_successor(job, shared.epoch):
                on_fenced("another master has taken over")
                return
            with shared.changed:
                shared.observed = observe_job(job)
                shared.changed.notify_all()
            shared.wakeup.set()


def report_progress(shared: SharedState, service: Service) -> None:
    """Reports progress every second in which it changed, until the master stops; the end at once, for the job may be
    over in less."""
    last = ProgressReport()
    while not shared.stopping:
        _wait(shared)
        report = _report(shared, time.monotonic())
        if report == last:
            continue
        try:
            service.progress(report)
            last = report
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("progress not reported: %s", error)


def _wait(shared: SharedState) -> None:
    """A second, or until the job has just ended."""
    with shared.changed:
        before = shared.ended
        shared.changed.wait_for(lambda: shared.stopping or shared.ended != before, REPORT)


def _report(shared: SharedState, now: float) -> ProgressReport:
    with shared.changed:
        queue, metrics = shared.queue, shared.metrics
        known = ProgressReport(
            throughput=round(metrics.throughput(now), 3),
            span=round(metrics.span(now), 3),
            loss=metrics.loss(),
            pause=metrics.pause,
        )
        if not queue.opened:
            return known
        return msgspec.structs.replace(
            known,
            pass_index=min(queue.pass_index + 1, queue.passes),
            passes=queue.passes,
            done=queue.pass_index * queue.chunks + queue.done.count,
            total=queue.passes * queue.chunks,
        )
