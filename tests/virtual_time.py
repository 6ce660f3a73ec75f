"""An event loop whose clock jumps: hours of back-off and leases in milliseconds, in the same order every time.

Whenever nothing is ready, time moves straight to the next timer. Sockets still work (loopback answers before the clock
moves), threads too, but only code without either is fully deterministic. If nothing is ready and no timer is set, the
test can never end: that is raised as a Deadlock after a short real wait.

    @virtual
    async def test_lease() -> None:
        await asyncio.sleep(3600)
        assert asyncio.get_running_loop().time() == 3600
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SOCKET_GRACE = 0.002  # real seconds for the kernel to carry loopback traffic before the clock jumps
_DEADLOCK_AFTER = 20.0  # real seconds without anything to wait for but a thread or a process


class Deadlock(RuntimeError):  # noqa: N818 - the word says it
    """Every task waits for something that no timer and no socket will bring."""


class _JumpingSelector(selectors.DefaultSelector):
    """Polls the real files; when they have nothing to say, moves the clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = super().select(_DEADLOCK_AFTER)
            if not ready:
                raise Deadlock("nothing is ready, no timer is set: every task waits for ever")
            return ready
        others = len(self.get_map() or ()) > 1  # one is the loop's own wake-up pipe
        ready = super().select(_SOCKET_GRACE if others and timeout > 0 else 0)
        if not ready and timeout > 0:
            self.now += timeout
        return ready

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return super().get_map() or {}


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def advance(self, seconds: float) -> None:
        """Time that passes while the process is stopped: timers that became due fire late and together."""
        self._clock.now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an async test on a loop of its own with a jumping clock that starts at zero."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return wrapper
