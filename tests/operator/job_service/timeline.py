"""Time that moves only when a test says so."""

import asyncio


class Timeline:
    def __init__(self) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Wakes everybody whose time comes, in order, and lets what they do settle."""
        end = self.now + seconds
        await settle()
        while due := sorted((at, i) for i, (at, _) in enumerate(self._sleepers) if at <= end + 1e-9):
            at, index = due[0]
            self.now = max(self.now, at)
            _, waiter = self._sleepers.pop(index)
            if not waiter.done():
                waiter.set_result(None)
            await settle()
        self.now = end


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
