"""The kind that the tests of the runtime watch, and a cluster of a client, a server and an informer in one line."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from edl.kube.cache.indexes import by_label, by_namespace, by_owner
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import DirectTransport
from tests.kube.fake_api import FakeApi

THINGS = Resource("test.dev", "v1", "things", "Thing")


class OwnerRef(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerRef, ...] = ()


class Spec(msgspec.Struct, frozen=True):
    level: int = 0


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta
    value: int = 0
    spec: Spec = Spec()


def client_of(api: FakeApi, **options: Any) -> Client:
    return Client(DirectTransport(api.handle), rng=random.Random(1), **options)


def informer_of(api: FakeApi, **options: Any) -> Informer[Thing]:
    indexes = {"owner": by_owner, "namespace": by_namespace, "colour": by_label("colour")}
    return Informer(client_of(api), THINGS, Thing, indexes=indexes, rng=random.Random(2), **options)


@asynccontextmanager
async def running(*parts: Any) -> AsyncIterator[None]:
    """Each part's run() as a task, cancelled at the end; a part that ended by an exception raises it here."""
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def until(condition: Callable[[], bool], *, within: float = 3600.0) -> None:
    """Waits on the loop's time (virtual or real) until the condition holds."""
    pause = 0.01
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 1.02)


def values(informer: Informer[Thing]) -> dict[str, int]:
    return {thing.metadata.name: thing.value for thing in informer.all()}


def truth(api: FakeApi) -> dict[str, int]:
    return {name: item.get("value", 0) for (_, name), item in api.objects.get("things", {}).items()}


class Heard:
    """A handler that remembers what it was told, as 'verb name=value'."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        thing = new or old
        assert thing is not None
        verb = "add" if old is None else "delete" if new is None else "change"
        self.story.append(f"{verb} {thing.metadata.name}={thing.value}")


def cluster(**things: int) -> FakeApi:
    api = FakeApi()
    for name, value in things.items():
        api.put("things", name, value=value)
    return api
