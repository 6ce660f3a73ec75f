"""Copies what this process prints to the Brain: for processes that have no agent of ours above them.

Lines go to the pod's own log first, as ever, and a copy of them is handed on. So nothing is lost there if the process
dies, and nothing waits. Copied is what Python code writes to `sys.stdout` and `sys.stderr`, tracebacks and logging
included; not what libraries written in C and processes started by this one write.
"""

import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import NoReturn, TextIO

from edl.runtime.environment import Environment
from edl.runtime.logs.feed import EVERY, LogFeed
from edl.runtime.torch.lines import LINK

STDOUT, STDERR = 1, 2
SEND = 2.0  # seconds for the last lines to be sent, at the end of the process

_copy: "_Copy | None" = None


def copy_output(env: Environment, *, leads: bool = False, every: float = EVERY) -> None:
    """From now on; once for a process, and not below torchrun's agent, which sees what its workers write. `leads`: of
    this pod's log more is kept."""
    global _copy
    if _copy is not None or os.environ.get(LINK):
        return
    feed = LogFeed.start(env, lambda: leads, every=every)
    if feed is None:
        return
    _copy = _Copy(feed)
    for number, stream in ((STDOUT, sys.stdout), (STDERR, sys.stderr)):
        _tee(number, stream)
    os.register_at_fork(after_in_child=_forget)
    atexit.register(end_output)


def end_output() -> None:
    """Sends what is left, within seconds or not at all. Called at the end of every process that ends in good order."""
    copy = _copy
    _forget()
    if copy is not None:
        copy.end()


def exit_now(code: int) -> NoReturn:
    """`os._exit`, but what was said last is sent."""
    end_output()
    os._exit(code)


class _Copy:
    """A signal handler, or a finalizer, may print while the same thread is about to hand on what it printed before. So
    what comes in the middle of that is only left for the call that was interrupted."""

    def __init__(self, feed: LogFeed) -> None:
        self._feed = feed
        self._lock, self._busy = threading.RLock(), 0
        self._written: deque[tuple[int, bytes]] = deque()

    def add(self, stream: int, text: str) -> None:
        if not text or not self._feed.wanted:
            return
        self._written.append((stream, text.encode(errors="replace")))
        if self._busy != threading.get_ident():
            self._hand_on()

    def end(self) -> None:
        self._written += [(STDOUT, b""), (STDERR, b"")]  # ends lines that were begun
        self._hand_on()
        self._feed.close(SEND)

    def _hand_on(self) -> None:
        with self._lock:
            self._busy = threading.get_ident()
            try:
                while self._written:
                    self._feed.add(*self._written.popleft())
            finally:
                self._busy = 0


def _tee(number: int, stream: TextIO) -> None:
    """The stream stays the object that it is, whoever holds it already."""
    try:
        stream.write = _writing(number, stream.write)  # type: ignore[method-assign]  # of this one object alone
    except AttributeError:
        return  # none at all, or one that cannot be changed


def _writing(number: int, original: Callable[[str], int]) -> Callable[[str], int]:
    def write(text: str) -> int:
        written = original(text)
        copy = _copy
        if copy is not None:
            copy.add(number, text)
        return written

    return write


def _forget() -> None:
    """Also in a child that was forked: it has none of our threads."""
    global _copy
    _copy = None
