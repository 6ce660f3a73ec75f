"""What training processes write to stdout or stderr, looked at in the agent while it passes on to its own: the last of
it is kept, and another may have a copy."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

from edl.runtime.torch.bars import BarLines

STDOUT, STDERR = 1, 2
KEPT = 4096
_BLOCK = 1 << 16


class StreamTail:
    """For one round of processes. Where no pipe can be had they write to the agent's stream itself, as ever.

    `copy` is given every block, an empty one at the end; it must not wait."""

    def __init__(self, stream: int = STDERR, copy: Callable[[int, bytes], None] | None = None) -> None:
        self._stream, self._hand_on = stream, copy
        self._kept = b""
        self._bars = BarLines()
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def inherited(self) -> Iterator[None]:
        """Processes that are started in the block write to us."""
        try:
            ours, theirs = os.pipe()
            kept = os.dup(self._stream)
        except OSError:
            yield
            return
        os.dup2(theirs, self._stream)
        os.close(theirs)
        try:
            yield
        finally:
            os.dup2(kept, self._stream)
            name = f"stream-{self._stream}"
            self._reader = threading.Thread(target=self._read, args=(ours, kept), name=name, daemon=True)
            self._reader.start()

    def _read(self, source: int, target: int) -> None:
        """Ends with the last process that has the pipe. What cannot be passed on is still kept."""
        while block := os.read(source, _BLOCK):
            block += self._bars.ending(block, time.monotonic())
            self._kept = (self._kept + block)[-KEPT:]
            with contextlib.suppress(OSError):
                rest = block
                while rest:
                    rest = rest[os.write(target, rest) :]
            if self._hand_on is not None:
                self._hand_on(self._stream, block)
        if self._hand_on is not None:
            self._hand_on(self._stream, b"")
        os.close(source)
        os.close(target)

    def drain(self, wait: float) -> None:
        """Until everything is passed on that processes wrote which have ended, but no longer."""
        if self._reader is not None:
            self._reader.join(wait)

    def last(self, wait: float = 1.0) -> str:
        """What was kept; of processes that have ended all that they wrote last."""
        self.drain(wait)
        return self._kept.decode(errors="replace").strip()
