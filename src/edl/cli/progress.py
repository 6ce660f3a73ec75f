"""How a job's training goes, asked at the job service with the job's own token.

On this machine the service is asked directly. In a cluster its address means nothing outside, so the API server's
service proxy carries the question. Whatever is in the way (rights, network, a job without pods) only leaves the numbers
out: `read` never fails.
"""

import ipaddress
import ssl
import time
from collections import deque
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from .pods import job_pods
from .told import environment

if TYPE_CHECKING:
    from edl.api.kinds import Kind
    from edl.kube.client import Client

PATIENCE = 3.0
WINDOW = 15.0


class Progress(msgspec.Struct, frozen=True, rename={"pass_index": "pass"}):
    """What the job last said, `age` seconds ago. None: it has not said that."""

    throughput: float | None = None
    loss: float | None = None
    pass_index: int | None = None
    passes: int | None = None
    done: int | None = None
    total: int | None = None
    age: float = 0.0


class _Answer(msgspec.Struct):
    progress: Progress | None = None


class _Door(msgspec.Struct, frozen=True):
    url: str
    token: str
    authority: str

    @property
    def on_this_machine(self) -> bool:
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def proxied(self) -> str:
        """The service's path below the API server: its address is NAME.NAMESPACE.svc:PORT."""
        parts = urlsplit(self.url)
        name, namespace, *_ = f"{parts.hostname or ''}..".split(".")
        return f"/api/v1/namespaces/{namespace}/services/{parts.scheme}:{name}:{parts.port or 443}/proxy"


class ProgressReader:
    """For one job."""

    def __init__(self, client: "Client", kind: "Kind", namespace: str, job: str) -> None:
        self._client, self._kind, self._namespace, self._job = client, kind, namespace, job
        self._door: _Door | None = None

    async def read(self) -> Progress | None:
        import aiohttp

        from edl.kube.errors import KubeError

        try:
            if self._door is None:
                self._door = await self._find()
            if self._door is None:
                return None
            return msgspec.json.decode(await self._ask(self._door), type=_Answer).progress
        except (KubeError, aiohttp.ClientError, msgspec.MsgspecError, OSError, ValueError):
            self._door = None  # the service may have moved; the next look finds it
            return None

    async def value(self, key: str) -> bytes | None:
        """What the job keeps under a key in the service, None if it cannot be had."""
        import aiohttp

        from edl.kube.errors import KubeError

        try:
            door = self._door or await self._find()
            return None if door is None else await self._ask(door, f"kv/{key}")
        except (KubeError, aiohttp.ClientError, OSError, ValueError):
            return None

    async def _find(self) -> _Door | None:
        """Where the job's own pods are told to knock, and with what."""
        from edl.jobs.environment import CA, TOKEN, URL

        secrets = f"{self._job}-{self._kind.short_names[0]}-"
        for pod in await job_pods(self._client, self._kind, self._namespace, self._job):
            told = await environment(self._client, pod, self._namespace, secrets=secrets)
            if told.get(URL):
                return _Door(told[URL], told.get(TOKEN, ""), told.get(CA, ""))
        return None

    async def _ask(self, door: _Door, call: str = "job") -> bytes:
        path = f"/v1/jobs/{self._namespace}/{self._job}/{call}"
        if not door.on_this_machine:
            from edl.kube.transport import Request

            request = Request("GET", door.proxied + path, headers={"EDL-Token": door.token})
            answer = await self._client.raw(request, timeout=PATIENCE)
            return bytes(answer.body)
        return await _get(door.url + path, door)


async def _get(url: str, door: _Door) -> bytes:
    import aiohttp

    tls = ssl.create_default_context(cadata=door.authority) if door.authority else ssl.create_default_context()
    timeout, headers = aiohttp.ClientTimeout(total=PATIENCE), {"Authorization": f"Bearer {door.token}"}
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, headers=headers, ssl=tls) as answer:
        answer.raise_for_status()
        return await answer.read()


class Pace:
    """Tasks per second over the last while, and so when the job will be done if it goes on like this."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def left(self, progress: Progress | None, now: float | None = None) -> float | None:
        """Seconds to the end; None while nobody can say."""
        if progress is None or progress.done is None or progress.total is None:
            return None
        now = time.monotonic() if now is None else now
        self._seen.append((now, progress.done))
        while now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        (since, before), gained = self._seen[0], progress.done - self._seen[0][1]
        if now - since < 1.0 or gained <= 0:
            return None
        return (progress.total - progress.done) * (now - since) / (progress.done - before)
