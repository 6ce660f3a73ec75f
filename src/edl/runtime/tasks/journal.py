"""Writes the queue's progress to the job service, one write at a time; changes meanwhile go with the next."""

import logging
from collections.abc import Callable

from edl.protocol.slots import Slot
from edl.runtime.service_client import Service, ServiceDownError, ServiceRefusalError, patiently
from edl.runtime.tasks.progress import Progress, decode, encode
from edl.runtime.tasks.shared_state import SharedState

log = logging.getLogger(__name__)

KEY = "queue"


def load(service: Service) -> tuple[Progress, int]:
    """The progress left by the last master, and its version. Call it after claiming the slot: then it cannot change."""
    found = patiently(lambda: service.get(KEY), "reading the queue")
    return (Progress(), 0) if found is None else (decode(found[0]), found[1])


class Journal:
    def __init__(
        self, shared: SharedState, service: Service, slot: Slot, version: int, *, on_fenced: Callable[[str], None]
    ) -> None:
        self._shared, self._service, self._slot, self._version = shared, service, slot, version
        self._on_fenced = on_fenced

    def run(self) -> None:
        """Writes until the master stops, or another master takes over."""
        try:
            while True:
                self._write_next()
        except ServiceRefusalError as error:
            self._on_fenced(str(error))
        except ServiceDownError:
            log.info("the journal ends with the master")

    def _write_next(self) -> None:
        shared = self._shared
        with shared.changed:
            while shared.queue.version <= shared.durable:
                if shared.stopping:
                    raise ServiceDownError("nothing left to write")
                shared.changed.wait()
            version, data = shared.queue.version, encode(shared.queue.progress())
        self._version = self._service.put(
            KEY, data, version=self._version, slot=self._slot, stop=lambda: shared.stopping
        )
        with shared.changed:
            shared.durable = version
            shared.changed.notify_all()
