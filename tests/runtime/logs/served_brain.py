"""A Brain that keeps logs, beside the job service of a test."""

from pathlib import Path
from typing import Any

from edl.brain.log_store import LogBounds, LogStore
from edl.brain.server import Brain
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import mint
from edl.protocol.plans import BrainAccess
from tests.runtime.torch.service_thread import ServiceThread

KEY = b"a key for tests only"
JOB = ("ns", "j", "u")


class ServedBrain:
    def __init__(self, service: ServiceThread, folder: Path, bounds: LogBounds) -> None:
        self._service, self._database = service, SqliteDatabase(str(folder / "brain.db"))
        self._store = LogStore(self._database, bounds)
        self._runner: Any = service.run(self._serve())
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _serve(self) -> Any:
        await self._database.open()
        return await Brain(Store(self._database), KEY, logs=self._store).serve("127.0.0.1", 0)

    def lines(self, pod: str = "p") -> list[str]:
        text = self._service.run(self._store.lines(JOB, pod))
        return [line.partition(" ")[2] for line in text.splitlines()]

    def leads(self) -> list[tuple[str, bool]]:
        return [(log.pod, log.leads) for log in self._service.run(self._store.pods(*JOB))]

    def close(self) -> None:
        self._service.run(self._runner.cleanup())
        self._service.run(self._database.close())


def access(url: str, subject: str = "ns/j/u", *, logs: bool = True) -> BrainAccess:
    return BrainAccess(url, mint(KEY, subject), logs=logs)
