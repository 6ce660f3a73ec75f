"""Background work that ends with the block that needs it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(*parts: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run the parts beside the block; they are cancelled, and have ended, when it is left."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
