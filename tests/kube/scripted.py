"""A server that answers as a test has written down, and the calls that are made to it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import DirectTransport, Request, Response
from tests.kube.fake_api import reply

PODS = Resource("", "v1", "pods", "Pod")


Call = Callable[[Client], Awaitable[Any]]


class Script:
    """A server that answers the given answers in order (the last one for ever) and remembers what it was asked."""

    def __init__(self, *answers: Response | Exception | None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Response)
        return answer

    @property
    def client(self) -> Client:
        return Client(DirectTransport(self), rng=random.Random(1))


OK = reply({"metadata": {"name": "a"}, "value": 7})


GET: Call = lambda c: c.get(PODS, "a", namespace="n")  # noqa: E731


POST: Call = lambda c: c.create(PODS, {}, namespace="n")  # noqa: E731


DELETE: Call = lambda c: c.delete(PODS, "a", namespace="n")  # noqa: E731
