"""The last lines that training processes write to stderr, kept in the agent while they pass on to its own stderr."""

import contextlib
import os
import threading
from collections.abc import Iterator

KEPT = 4096
_BLOCK = 1 << 16


class StderrTail:
    """For one round of processes. Where no pipe can be had they write to the agent's stderr itself, as ever."""

    def __init__(self) -> None:
        self._kept = b""
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def inherited(self) -> Iterator[None]:
        """Processes that are started in the block write to us."""
        try:
            ours, theirs = os.pipe()
            kept = os.dup(2)
        except OSError:
            yield
            return
        os.dup2(theirs, 2)
        os.close(theirs)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            self._reader = threading.Thread(target=self._copy, args=(ours, kept), name="stderr", daemon=True)
            self._reader.start()

    def _copy(self, source: int, target: int) -> None:
        """Ends with the last process that has the pipe. What cannot be passed on is still kept."""
        while block := os.read(source, _BLOCK):
            self._kept = (self._kept + block)[-KEPT:]
            with contextlib.suppress(OSError):
                rest = block
                while rest:
                    rest = rest[os.write(target, rest) :]
        os.close(source)
        os.close(target)

    def last(self, wait: float = 1.0) -> str:
        """What was kept; of processes that have ended all that they wrote last."""
        if self._reader is not None:
            self._reader.join(wait)
        return self._kept.decode(errors="replace").strip()
