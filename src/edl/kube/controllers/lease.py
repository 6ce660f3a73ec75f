"""Leadership by a coordination.k8s.io Lease: at most one holder works, and it stops before another one may start.

Time is never compared between machines. The holder counts its lease from *before* the request that renewed it; others
count from *after* they saw that renewal, on their own clocks: so the holder's ends first, whatever the clocks say.
The clock runs on while the process or the machine sleeps (CLOCK_BOOTTIME). The work is cancelled a third of the lease
before its end. Because a stopped process cannot cancel anything, its writes pass a `Fence` that checks the clock; and
because it may be stopped between that check and the write, a write should carry a resourceVersion or uid too.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from datetime import UTC, datetime
from typing import Any

from edl.kube.rest.client import CallOptions, Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.rate_limiter import RequestPriority
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import Request, Response, Transport

log = logging.getLogger(__name__)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


class LeaseLostError(KubeError):
    """We do not hold the lease (any more): whatever this was about must not happen."""


def boottime() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def utc_now() -> datetime:
    return datetime.now(UTC)


def micro_time(when: datetime) -> str:
    """As the API writes it."""
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Fence:
    """A transport that lets writes through only while `check` does not raise."""

    def __init__(self, transport: Transport, check: Callable[[], None]) -> None:
        self._transport, self._check = transport, check

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            self._check()
        return await self._transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


class Lease:
    """`identity` must be unique per process. `duration` is the lease in seconds; it is renewed every fifth of that."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        duration: float = 15.0,
        clock: Callable[[], float] = boottime,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if not identity or duration < 1:
            raise ValueError(
                f"lease {name}: identity must not be empty, duration at least 1 s, not {identity!r}, {duration}"
            )
        self._client, self._name, self._namespace, self.identity = client, name, namespace, identity
        self._duration, self._clock, self._now = duration, clock, now
        self._body: dict[str, Any] = {}
        self._expires = -math.inf  # on our clock, counted from before the request that took or renewed it
        self._seen = ("", -math.inf)  # (version, when it became so) of somebody else's lease
        self._patience = 0.0  # how long that one must stay unchanged before it is free
        self._asked = False  # a request to take the lease was sent and not answered

    @property
    def held(self) -> bool:
        return self._left > 0

    @property
    def _left(self) -> float:
        """Seconds to work in. The last third of the lease is not among them: it is for the work to end in."""
        return self._expires - self._duration / 3 - self._clock()

    def check(self) -> None:
        if not self.held:
            raise LeaseLostError(f"{self.identity} does not hold lease {self._namespace}/{self._name}")

    async def hold(self, work: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease, works while it is ours, gives it back. LeaseLostError: lost; the process should end."""
        try:
            await self._acquire()
        except asyncio.CancelledError:
            if self._asked:  # a request to take it was on its way: it may be ours without our knowing
                await self._release()
            raise
        log.info("%s holds lease %s/%s", self.identity, self._namespace, self._name)
        working = asyncio.ensure_future(work())
        keeping = asyncio.create_task(self._keep())
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            keeping.cancel()
            ended = await self._end(working)
            await asyncio.gather(keeping, return_exceptions=True)
            if ended and self.held:
                await self._release()
            self._expires = -math.inf
        if not keeping.cancelled():
            keeping.result()  # raises: it ends only by losing the lease
        await working

    async def _end(self, working: "asyncio.Future[None]") -> bool:
        working.cancel()
        await asyncio.wait({working}, timeout=max(self._expires - self._clock(), self._duration / 10))
        if not working.done():
            log.critical("%s: the work did not end before the lease did; its writes are refused", self.identity)
        return working.done()

    # Getting it.

    async def _acquire(self) -> None:
        while True:
            started = self._clock()
            try:
                if await self._try(started):
                    return
                await self._wait_for_change()
            except KubeError as error:
                log.info("lease %s/%s: %s", self._namespace, self._name, error)
                await asyncio.sleep(self._duration / 10)

    async def _try(self, started: float) -> bool:
        body = await self._read()
        spec = body.get("spec", {})
        holder, version = spec.get("holderIdentity", ""), body.get("metadata", {}).get("resourceVersion", "")
        if holder and version != self._seen[0]:
            self._seen = (version, self._clock())
            self._patience = float(spec.get("leaseDurationSeconds") or self._duration)
        if (holder or not version) and self._clock() - self._seen[1] < self._patience:
            return False  # also when the object was deleted under its holder, who may not know it yet
        transitions = spec.get("leaseTransitions", 0) + (1 if version else 0)
        stamp = self._stamp()
        wanted = {"acquireTime": stamp, "renewTime": stamp, "leaseTransitions": transitions}
        self._asked = True
        try:
            await self._write(body, holderIdentity=self.identity, **wanted)
        except ApiError as error:
            self._asked = False
            if error.is_conflict or error.is_already_exists:
                return False
            raise
        self._asked = False
        self._expires = started + self._duration
        return self.held

    async def _read(self) -> dict[str, Any]:
        try:
            return await self._client.get(LEASES, self._name, **self._options)
        except ApiError as error:
            if error.is_not_found:
                return {}
            raise

    async def _wait_for_change(self) -> None:
        """Until the lease changes, or is free. A watch, so that a lease given back is taken at once."""
        left = self._seen[1] + self._patience - self._clock()
        if left > 0:
            changes = self._client.watch(
                LEASES,
                resource_version=self._seen[0],
                namespace=self._namespace,
                fields={"metadata.name": self._name},
                seconds=self._duration,
                idle=self._duration,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(left), aclosing(changes):
                    async for batch in changes:
                        if list(batch):
                            break
        await asyncio.sleep(min(0.2, self._duration / 50))  # a server that ends streams at once must not make us spin

    # Keeping it.

    async def _keep(self) -> None:
        """Renews; ends only by LeaseLostError, in time for the work to end before the lease."""
        failure: Exception | None = None
        while True:
            pause = self._duration / 5 if failure is None else self._duration / 15
            await asyncio.sleep(max(0.0, min(pause, self._left)))
            if not self.held:
                raise LeaseLostError(f"{self.identity} did not renew in time: {failure or 'stopped'}") from failure
            started = self._clock()
            try:
                async with asyncio.timeout(self._left):
                    await self._renew()
            except LeaseLostError:
                self._expires = -math.inf
                raise
            except (KubeError, TimeoutError) as error:
                failure = error
                log.warning("lease %s/%s not renewed: %s", self._namespace, self._name, error or "no answer")
            else:
                failure, self._expires = None, started + self._duration

    async def _renew(self) -> None:
        try:
            await self._write(self._body, renewTime=self._stamp())
        except ApiError as error:
            if not (error.is_conflict or error.is_not_found):
                raise
            body = await self._read()
            if body.get("spec", {}).get("holderIdentity") != self.identity:
                raise LeaseLostError(f"{self.identity} lost the lease: it was taken or deleted") from error
            await self._write(body, renewTime=self._stamp())

    async def _release(self) -> None:
        """Gives the lease back if it is ours. A request of ours that was cancelled on its way may still arrive: before
        this one, then ours is the newer version that we read; or after it, then it names an old one and is refused."""
        try:
            async with asyncio.timeout(self._duration / 3):
                body = await self._read() if self._asked else self._body
                while body.get("spec", {}).get("holderIdentity") == self.identity:
                    if await self._try_release(body):
                        return
                    body = await self._read()
        except (KubeError, TimeoutError) as error:
            cause = str(error) or "no answer"
            log.warning("lease %s/%s not given back, it will expire: %s", self._namespace, self._name, cause)

    async def _try_release(self, body: dict[str, Any]) -> bool:
        """False: this is no longer the lease's present version."""
        try:
            await self._write(body, holderIdentity="", leaseDurationSeconds=1, renewTime=self._stamp())
        except ApiError as error:
            if error.is_conflict or error.is_not_found:
                return False
            raise
        return True

    async def _write(self, body: dict[str, Any], **changes: Any) -> None:
        """Replaces exactly the version that `body` is, or creates; anything else in between is a conflict."""
        spec = {**body.get("spec", {}), "leaseDurationSeconds": math.ceil(self._duration), **changes}
        metadata = body.get("metadata") or {"name": self._name, "namespace": self._namespace}
        wanted = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        if "resourceVersion" in metadata:
            self._body = await self._client.replace(LEASES, self._name, wanted, **self._options)
        else:
            self._body = await self._client.create(LEASES, wanted, **self._options)

    @property
    def _options(self) -> CallOptions:
        return {"namespace": self._namespace, "priority": RequestPriority.EXEMPT, "timeout": self._duration / 5}

    def _stamp(self) -> str:
        """For people and for other implementations; our own decisions never read it."""
        return micro_time(self._now())
