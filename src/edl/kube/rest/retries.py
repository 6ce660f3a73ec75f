"""Carries out a request until it succeeds, cannot succeed, or its deadline is over: rate limit, deadline, retries.

Retried are: 429 always; other failures only where doing it twice is the same as once (reads, PUT, DELETE, merge and
apply patches), or where the server cannot have seen the request.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

from edl.kube.rest.backoff import Backoff
from edl.kube.rest.errors import ApiError, ConnectionLostError, DeadlineExceededError, KubeError
from edl.kube.rest.rate_limiter import RateLimiter, RequestPriority
from edl.kube.rest.transport import Request, Response, Transport

ATTEMPTS = 5  # for failures that do not say when to come back
MERGE_PATCH, APPLY_PATCH = "application/merge-patch+json", "application/apply-patch+yaml"


class RetryingCaller:
    """`timeout` is the default deadline of a call in seconds; it covers waiting for the rate limit and every retry."""

    def __init__(self, transport: Transport, rate_limiter: RateLimiter, timeout: float, rng: random.Random) -> None:
        self._transport, self._rate_limiter = transport, rate_limiter
        self._timeout, self._rng = timeout, rng

    async def close(self) -> None:
        await self._transport.close()

    async def call(
        self, request: Request, priority: RequestPriority = RequestPriority.NORMAL, timeout: float | None = None
    ) -> Response:
        seconds = self._timeout if timeout is None else timeout
        until = asyncio.get_running_loop().time() + seconds
        backoff = Backoff(base=0.2, cap=10.0, rng=self._rng)
        failure: KubeError | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._rate_limiter.acquire(priority)
                    try:
                        return await self._attempt(request)
                    except (ApiError, ConnectionLostError) as error:
                        failure = error
                    delay = _pause(request, failure, backoff)
                    if delay is None or asyncio.get_running_loop().time() + delay >= until:
                        raise failure
                    await asyncio.sleep(delay)
        except TimeoutError:
            raise DeadlineExceededError(f"{request}: not done within {seconds:g} s") from failure

    async def stream(self, request: Request, idle: float) -> AsyncGenerator[bytes, None]:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(idle):
                    await self._rate_limiter.acquire()
                    response = await stack.enter_async_context(self._transport.stream(request))
                    assert response.chunks is not None
                    if response.code >= 400:
                        body = b"".join([chunk async for chunk in response.chunks])
                        raise ApiError.from_answer(response.code, response.headers, body, str(request))
                yield b""
                while True:
                    async with asyncio.timeout(idle):
                        chunk = await anext(response.chunks, None)
                    if chunk is None:
                        return
                    yield chunk
            except TimeoutError as error:
                raise ConnectionLostError(f"{request}: nothing received for {idle:g} s") from error

    async def _attempt(self, request: Request) -> Response:
        response = await self._transport.request(request)
        if response.code >= 400:
            raise ApiError.from_answer(response.code, response.headers, response.body, str(request))
        return response


def _pause(request: Request, failure: KubeError, backoff: Backoff) -> float | None:
    """How long to wait before the same request may be sent again; None: not at all."""
    repeatable = request.method in ("GET", "PUT", "DELETE") or request.content_type in (MERGE_PATCH, APPLY_PATCH)
    advice = failure.retry_after if isinstance(failure, ApiError) else None
    if isinstance(failure, ApiError):
        again = failure.code == 429 or (failure.code >= 500 and (repeatable or advice is not None))
    else:
        again = repeatable or (isinstance(failure, ConnectionLostError) and not failure.sent)
    pause = backoff.next()
    if not again or (advice is None and backoff.failures >= ATTEMPTS):
        return None
    return pause if advice is None else advice + pause
