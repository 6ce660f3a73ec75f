"""Background work that ends with the block that needs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.errors import ApiError, KubeError

log = logging.getLogger(__name__)
K = TypeVar("K")


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


async def work(queue: WorkQueue[K], process: Callable[[K], Awaitable[float | None]], name: str) -> None:
    """One worker of a queue whose keys are not objects' names: `process` returns a delay to requeue, or nothing."""
    while True:
        key, _ = await queue.get()
        try:
            delay = await process(key)
            queue.forget(key)
            if delay is not None:
                queue.add(key, delay=delay)
        except KubeError as error:
            level = logging.DEBUG if isinstance(error, ApiError) and error.is_conflict else logging.WARNING
            log.log(level, "%s: %s: %s; again in %.1f s", name, key, error, queue.retry(key))
        except LookupError as error:
            log.warning("%s: %s: %s; again in %.1f s", name, key, error, queue.retry(key))
        except Exception:
            log.exception("%s: %s; again in %.1f s", name, key, queue.retry(key))
        finally:
            queue.done(key)
