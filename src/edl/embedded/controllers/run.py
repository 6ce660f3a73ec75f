"""Starts the controllers: all of them, or those named, against whatever API server the client speaks to."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.deployment import Deployments
from edl.embedded.controllers.endpoints import Endpoints
from edl.embedded.controllers.garbage import GarbageCollector
from edl.embedded.controllers.job import Jobs
from edl.embedded.controllers.namespaces import Namespaces
from edl.embedded.controllers.nodes import GRACE_SECONDS, NodeLifecycle
from edl.embedded.controllers.replicaset import ReplicaSets
from edl.embedded.controllers.statefulset import StatefulSets
from edl.embedded.tasks import background
from edl.kube.controllers.controller import Controller
from edl.kube.rest.client import Client

NAMES = (
    "replicaset",
    "deployment",
    "statefulset",
    "job",
    "endpointslice",
    "namespace",
    "node-lifecycle",
    "garbage-collector",
)


@asynccontextmanager
async def controllers(
    client: Client,
    *,
    only: Collection[str] = NAMES,
    authority: str = "",
    node_grace: float = GRACE_SECONDS,
    job_backoff: float = 10.0,
) -> AsyncIterator[None]:
    """They work when this gives way, and have stopped when it ends."""
    unknown = set(only) - set(NAMES)
    if unknown:
        raise ValueError(f"unknown controllers {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    caches = Caches(client)
    chosen = _chosen(caches, only, authority=authority, node_grace=node_grace, job_backoff=job_backoff)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(caches.running())
        if "garbage-collector" in only:
            await stack.enter_async_context(GarbageCollector(client).running())
        await stack.enter_async_context(background(*(one.run() for one in chosen)))
        yield


def _chosen(
    caches: Caches, only: Collection[str], *, authority: str, node_grace: float, job_backoff: float
) -> list[Controller]:
    makers: dict[str, Callable[[], Controller]] = {
        "replicaset": lambda: ReplicaSets(caches).controller(),
        "deployment": lambda: Deployments(caches).controller(),
        "statefulset": lambda: StatefulSets(caches).controller(),
        "job": lambda: Jobs(caches, backoff=job_backoff).controller(),
        "endpointslice": lambda: Endpoints(caches).controller(),
        "namespace": lambda: Namespaces(caches, authority=authority).controller(),
        "node-lifecycle": lambda: NodeLifecycle(caches, grace=node_grace).controller(),
    }
    return [make() for name, make in makers.items() if name in only]
