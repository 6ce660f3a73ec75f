"""Client-side rate limiting with priorities: requests that free resources go before those that use them.

A token bucket with a priority queue in front. Under load a delete or an eviction overtakes status writes, and events
come last; within a priority the order is first come, first served. It does not handle a server's 429: `retries` does.
"""

import asyncio
import heapq
import itertools
from enum import IntEnum


class RequestPriority(IntEnum):
    EXEMPT = 0  # lease renewals: never wait, never counted
    URGENT = 1  # writes that free resources
    NORMAL = 2
    BACKGROUND = 3  # events, housekeeping


class RateLimiter:
    def __init__(self, *, qps: float = 50.0, burst: int = 100) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps must be above 0 and burst at least 1, not qps={qps}, burst={burst}")
        self._qps, self._burst = qps, float(burst)
        self._tokens, self._counted_at = float(burst), 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, priority: RequestPriority = RequestPriority.NORMAL) -> None:
        """Waits for a turn; cancelling the wait gives the turn to the next one."""
        if priority is RequestPriority.EXEMPT:
            return
        loop = asyncio.get_running_loop()
        self._refill(loop.time())
        if not self._waiting and self._tokens >= 1:
            self._tokens -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (priority, next(self._numbers), turn))
        self._arm(loop)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # granted and cancelled at once: the token goes back
                self._tokens += 1
                self._grant(loop)
            raise

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._counted_at) * self._qps)
        self._counted_at = now

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and self._waiting:
            self._timer = loop.call_later(max(0.0, 1 - self._tokens) / self._qps, self._grant, loop)

    def _grant(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._refill(loop.time())
        while self._waiting and self._tokens > 1 - 1e-9:  # a timer may fire a rounding error early
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._tokens -= 1
                turn.set_result(None)
        self._arm(loop)
