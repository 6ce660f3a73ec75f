"""Reads a job's progress from the job service, with the job's own token.

On this machine the service is called directly. In a cluster its address means nothing outside, so the call goes through
the API server's service proxy. Whatever is in the way (rights, network, a job without pods) only leaves the numbers
out: `read` never fails.
"""

import ipaddress
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from edl.cli.connect.pod_environment import environment
from edl.cli.connect.pods import job_pods
from edl.protocol.job_state import JobView
from edl.protocol.progress import LastProgress, ProgressReport

if TYPE_CHECKING:
    from edl.jobs.core.kind import Kind
    from edl.kube.rest.client import Client

TIMEOUT = 3.0


class _Endpoint(msgspec.Struct, frozen=True):
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
    """For one job. `uid` tells its pods from others that bear its labels: those would be asked where to send the
    job's token."""

    def __init__(self, client: "Client", kind: "Kind", namespace: str, job: str, *, uid: str = "") -> None:
        self._client, self._kind, self._namespace, self._job, self._uid = client, kind, namespace, job, uid
        self._endpoint: _Endpoint | None = None

    async def read(self) -> LastProgress | None:
        view = await self.view()
        return view.progress or None if view is not None else None

    async def view(self) -> JobView | None:
        """The job as the service knows it, None if it cannot be had."""
        import aiohttp

        from edl.kube.rest.errors import KubeError

        try:
            if self._endpoint is None:
                self._endpoint = await self._find()
            if self._endpoint is None:
                return None
            return msgspec.json.decode(await self._ask(self._endpoint), type=JobView)
        except (KubeError, aiohttp.ClientError, msgspec.MsgspecError, OSError, ValueError):
            self._endpoint = None  # the service may have moved; the next call finds it
            return None

    async def report(self, report: ProgressReport) -> None:
        """Tells the service what somebody else has seen of the job's progress; who cannot is silent."""
        import aiohttp

        from edl.kube.rest.errors import KubeError

        try:
            if self._endpoint is not None:
                await self._ask(self._endpoint, "progress", msgspec.json.encode(report))
        except (KubeError, aiohttp.ClientError, OSError, ValueError):
            return

    async def value(self, key: str) -> bytes | None:
        """What the job keeps under a key in the service, None if it cannot be had."""
        import aiohttp

        from edl.kube.rest.errors import KubeError

        try:
            endpoint = self._endpoint or await self._find()
            return None if endpoint is None else await self._ask(endpoint, f"kv/{key}")
        except (KubeError, aiohttp.ClientError, OSError, ValueError):
            return None

    async def _find(self) -> _Endpoint | None:
        """The address and the token that the job's own pods were given."""
        from edl.jobs.core.pods.environment import CA, TOKEN, URL

        secrets = f"{self._job}-{self._kind.short_names[0]}-"
        for pod in await job_pods(self._client, self._kind, self._namespace, self._job, uid=self._uid):
            env = await environment(self._client, pod, self._namespace, secrets=secrets)
            if env.get(URL):
                return _Endpoint(env[URL], env.get(TOKEN, ""), env.get(CA, ""))
        return None

    async def _ask(self, endpoint: _Endpoint, call: str = "job", body: bytes | None = None) -> bytes:
        path, method = f"/v1/jobs/{self._namespace}/{self._job}/{call}", "GET" if body is None else "POST"
        if not endpoint.on_this_machine:
            from edl.kube.rest.transport import Request

            headers = {"EDL-Token": endpoint.token}
            request = Request(method, endpoint.proxied + path, body=body, headers=headers)
            answer = await self._client.raw(request, timeout=TIMEOUT)
            return bytes(answer.body)
        return await _call(method, endpoint.url + path, endpoint, body)


async def _call(method: str, url: str, endpoint: _Endpoint, body: bytes | None) -> bytes:
    import aiohttp

    tls = ssl.create_default_context(cadata=endpoint.authority) if endpoint.authority else ssl.create_default_context()
    timeout, headers = aiohttp.ClientTimeout(total=TIMEOUT), {"Authorization": f"Bearer {endpoint.token}"}
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(method, url, data=body, headers=headers, ssl=tls) as answer,
    ):
        answer.raise_for_status()
        return await answer.read()
