"""Synchronous calls of a cluster: each in a thread with a loop of its own, so that they work where one runs already, as
in a notebook.
"""

import argparse
import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from edl.cli.connect.cluster import connected
from edl.cli.errors import CommandError
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError

T = TypeVar("T")
Work = Callable[[Client, str], Awaitable[T]]
_END = object()


class JobError(RuntimeError):
    """A call could not be carried out; says why, and what to do."""


class Cluster(NamedTuple):
    """Which cluster and namespace; None: what the command line would choose."""

    kubeconfig: str | None = None
    namespace: str | None = None

    @property
    def options(self) -> argparse.Namespace:
        return argparse.Namespace(kubeconfig=self.kubeconfig, namespace=self.namespace)

    def call(self, work: Work[T]) -> T:
        """What the work returns; JobError if it cannot be done."""
        with ThreadPoolExecutor(1, thread_name_prefix="edl") as executor:
            return executor.submit(lambda: asyncio.run(self._work(work))).result()

    async def _work(self, work: Work[T]) -> T:
        try:
            async with connected(self.options) as (client, namespace):
                return await work(client, namespace)
        except CommandError as error:
            raise JobError(str(error)) from None
        except ApiError as error:
            raise JobError(error.status.message) from None
        except KubeError as error:
            raise JobError(f"{error}; is there a cluster? `edl up` starts one on this machine") from None

    def stream(self, work: Callable[[Client, str], AsyncIterator[T]]) -> Iterator[T]:
        """What the work yields, as it does. Leaving the loop ends it."""
        items: queue.Queue[Any] = queue.Queue(maxsize=1000)
        left = threading.Event()

        async def pump(client: Client, namespace: str) -> None:
            async for item in work(client, namespace):
                while not left.is_set():
                    try:
                        items.put_nowait(item)
                        break
                    except queue.Full:
                        await asyncio.sleep(0.05)
                if left.is_set():
                    return

        def run() -> None:
            try:
                asyncio.run(self._work(pump))
            except BaseException as error:
                items.put(error)
            else:
                items.put(_END)

        threading.Thread(target=run, name="edl", daemon=True).start()
        try:
            while (item := items.get()) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            left.set()
