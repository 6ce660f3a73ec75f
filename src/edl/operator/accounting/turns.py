"""Long loops in the operator's event loop, with turns for others: with thousands of jobs none may hold it up."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")
EVERY = 100


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    for number, item in enumerate(items):
        if number % EVERY == EVERY - 1:
            await asyncio.sleep(0)
        yield item
