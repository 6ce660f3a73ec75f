"""Tasks of a trainer in a job without a master: its fixed share of every pass, by its index.

The trainer has a queue of its own, in its own process, for chunks index, index + count, index + 2 count... Its progress
is in the job service under a key of this index, so that the next process of the slot goes on where this one was. The
shares never move: a trainer that is lost delays its share, and the job is never scaled.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from edl.protocol.job_state import JobView, RoleView
from edl.protocol.progress import ProgressReport
from edl.protocol.slots import Slot
from edl.runtime.environment import Environment
from edl.runtime.logs.own_output import exit_now
from edl.runtime.service_client import Service, patiently
from edl.runtime.tasks import progress, run
from edl.runtime.tasks.run import Master

log = logging.getLogger(__name__)

ROLE = "trainer"
LEFT = 143


@dataclass(frozen=True)
class Share:
    """One of `count` shares of the chunks of a pass; they are disjoint and cover all of them."""

    index: int = 0
    count: int = 1

    def size(self, chunks: int) -> int:
        return len(range(self.index, chunks, self.count)) if self.index < self.count else 0

    def chunk(self, position: int) -> int:
        """The chunk at a place in this share."""
        return self.index + position * self.count


def has_master(env: Environment, service: Service) -> bool:
    """Whether this trainer gets its tasks from a master, its own or another trainer's process (EasyDL)."""
    if env.master or env.index is None or env.role not in ("", ROLE):
        return True
    job = patiently(service.job, "reading the job")
    return job is None or ROLE not in job.roles or run.ROLE in job.roles


class FixedShare:
    """The queue of one trainer. `env` is that of this trainer with its own queue as the master."""

    def __init__(self, env: Environment, service: Service) -> None:
        index = env.index or 0
        self.share = Share(index, env.trainers)
        log.info("no master: this is trainer %d of %d, with a fixed share of every pass", index, env.trainers)
        own = ShareService(service, index)
        self._master = Master(replace(env, master="127.0.0.1:0", pod_ip="127.0.0.1"), own, on_fenced=_leave)
        self.env = replace(env, master=own.master)

    def close(self) -> None:
        self._master.close()


class ShareService:
    """The job service as the master of one share sees it: the trainer's slot for the master's, a key of its own."""

    def __init__(self, service: Service, index: int) -> None:
        self._service, self._index, self.master = service, index, ""

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
        self.master = address
        return self._service.claim(ROLE, self._index, holder)

    def get(self, key: str) -> tuple[bytes, int] | None:
        return self._service.get(self._key(key))

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int:
        kept = msgspec.structs.replace(progress.decode(data), recent=[])  # only this process would ask for them again
        return self._service.put(self._key(key), progress.encode(kept), version=version, slot=slot, stop=stop)

    def job(self, after: str = "", wait: float = 0.0) -> JobView | None:
        job = self._service.job(after, wait)
        if job is None:
            return None
        slot = job.slot(ROLE, self._index)
        roles = {run.ROLE: RoleView(1, slots={0: slot} if slot else {})}
        return JobView(phase=job.phase, size=1, roles=roles, leaving=job.leaving, revision=job.revision)

    def progress(self, report: ProgressReport) -> None:
        """The shares are alike: the first one's progress stands for all."""
        if self._index == 0:
            self._service.progress(report)

    def close(self) -> None:
        """The trainer closes the service."""

    def _key(self, key: str) -> str:
        return f"{key}-{self._index}"


def _leave(reason: str) -> None:
    """Another process has this share: nothing that this one does counts any more."""
    log.critical("this trainer ends: %s", reason)
    exit_now(LEFT)
