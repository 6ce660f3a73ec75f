"""A job service with one job in a thread of the test, for programs that reach it from another process."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import msgspec

from edl.operator.job_service import JobRecord, JobService, MemoryStore
from edl.operator.job_service.trainer_calls import NoTrainerRequests
from edl.protocol.plans import BrainAccess

T = TypeVar("T")


class Requests(NoTrainerRequests):
    """Tells of a Brain, if the test has one."""

    access: BrainAccess | None = None

    def brain(self, namespace: str, name: str, record: JobRecord) -> BrainAccess | None:
        return self.access


class ServiceThread:
    def __init__(self) -> None:
        self._requests = Requests()
        self.store = MemoryStore()
        self.record = JobRecord(uid="u", token="secret", pods=frozenset({"p"}))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._service = JobService(self.store, lambda namespace, name: [self.record], trainer_requests=self._requests)
        self._service.lead()
        self._runner = asyncio.run_coroutine_threadsafe(self._service.serve("127.0.0.1", 0), self._loop).result(30)
        self.port = self._runner.addresses[0][1]

    def tell_of_brain(self, access: BrainAccess | None) -> None:
        self._requests.access = access

    def edit(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        self._loop.call_soon_threadsafe(self._service.changed, ("ns", "j", self.record.tag))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def env(self, pod: str) -> dict[str, str]:
        return {
            "EDL_SERVICE_URL": f"http://127.0.0.1:{self.port}",
            "EDL_JOB_NAMESPACE": "ns",
            "EDL_JOB_NAME": "j",
            "EDL_JOB_TOKEN": "secret",
            "EDL_JOB_UID": "u",
            "EDL_POD_NAME": pod,
        }

    def reported(self, pod: str) -> bool:
        return pod in self._service.silence(("ns", "j", "edl"))

    def until(self, holds: Callable[[], bool]) -> bool:
        end = time.monotonic() + 30.0
        while not holds() and time.monotonic() < end:
            time.sleep(0.01)
        return holds()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._service.retire)
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextlib.contextmanager
def serving() -> Iterator[ServiceThread]:
    service = ServiceThread()
    try:
        yield service
    finally:
        service.close()
