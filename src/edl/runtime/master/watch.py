"""Follows the job through the service, and tells the service how the job is doing. Training needs neither to go on."""

import logging
import time
from collections.abc import Callable
from typing import Any

from ..service import Service, ServiceDownError, ServiceRefusalError
from .board import Board, Member, View

log = logging.getLogger(__name__)

WAIT = 20.0
REPORT = 1.0


def view_of(job: dict[str, Any]) -> View:
    """What of GET /job matters to a master."""
    role, leaving = job["roles"].get("pserver"), frozenset(job["leaving"])
    slots = {
        Member(int(index), slot["epoch"], slot["address"]): slot["holder"].partition("/")[0]
        for index, slot in (role["slots"] if role else {}).items()
        if slot.get("address") and not slot["gone"]
    }
    return View(
        running=job.get("size"),
        wanted=role["replicas"] if role else 0,
        members=tuple(slots),
        departing=frozenset(member for member, pod in slots.items() if pod in leaving),
        leaving=leaving,
    )


def successor(job: dict[str, Any], epoch: int) -> bool:
    """Whether another process holds the master's slot by now; one that has nothing to write learns it only here."""
    slot = job["roles"].get("master", {}).get("slots", {}).get("0")
    return slot is not None and slot["epoch"] > epoch


def follow(board: Board, service: Service, on_fenced: Callable[[str], None]) -> None:
    """Keeps the board's view of the job up to date, until the master ends."""
    revision = ""
    while not board.stopping:
        try:
            job = service.job(revision, wait=WAIT)
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("job service: %s", error)
            time.sleep(1.0)
            continue
        if job is not None:
            revision = job["revision"]
            if successor(job, board.epoch):
                on_fenced("another master has taken over")
                return
            with board.changed:
                board.view = view_of(job)
                board.changed.notify_all()
            board.attention.set()


def tell(board: Board, service: Service) -> None:
    """Reports progress every second in which there is news, until the master ends."""
    last: dict[str, Any] = {}
    while not board.stopping:
        time.sleep(REPORT)
        news = _report(board, time.monotonic())
        if news == last:
            continue
        try:
            service.progress(news)
            last = news
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("progress not reported: %s", error)


def _report(board: Board, now: float) -> dict[str, Any]:
    with board.changed:
        queue, report = board.queue, board.report
        known = {
            "throughput": round(report.throughput(now), 3),
            "loss": report.loss(),
            "pause": report.pause,
        }
        if queue.opened:
            known |= {
                "pass": min(queue.pass_index + 1, queue.passes),
                "passes": queue.passes,
                "done": queue.pass_index * queue.chunks + queue.done.count,
                "total": queue.passes * queue.chunks,
            }
    return {name: value for name, value in known.items() if value is not None}
