"""Keeps the queue's progress in the job service. One write at a time; what changed meanwhile goes with the next."""

import logging
from collections.abc import Callable

from ..service import Service, ServiceDownError, ServiceRefusalError, Slot, patiently
from .board import Board
from .progress import Progress, decode, encode

log = logging.getLogger(__name__)

KEY = "queue"


def load(service: Service) -> tuple[Progress, int]:
    """What the last master left, and its version; call it after taking the slot, so that it cannot change any more."""
    found = patiently(lambda: service.get(KEY), "reading the queue")
    return (Progress(), 0) if found is None else (decode(found[0]), found[1])


class Journal:
    def __init__(
        self, board: Board, service: Service, slot: Slot, version: int, *, on_fenced: Callable[[str], None]
    ) -> None:
        self._board, self._service, self._slot, self._version = board, service, slot, version
        self._on_fenced = on_fenced

    def run(self) -> None:
        """Writes until the master ends, or until another master has taken its place."""
        try:
            while True:
                self._write_next()
        except ServiceRefusalError as error:
            self._on_fenced(str(error))
        except ServiceDownError:
            log.info("the journal ends with the master")

    def _write_next(self) -> None:
        board = self._board
        with board.changed:
            while board.queue.version <= board.durable:
                if board.stopping:
                    raise ServiceDownError("nothing left to write")
                board.changed.wait()
            version, data = board.queue.version, encode(board.queue.progress())
        self._version = self._service.put(
            KEY, data, version=self._version, slot=self._slot, stop=lambda: board.stopping
        )
        with board.changed:
            board.durable = version
            board.changed.notify_all()
