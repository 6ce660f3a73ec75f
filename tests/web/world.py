"""A page on an API server in this process: jobs, pods and nodes as a test wants them, and viewers with few rights.

The embedded API server knows no roles; reviews of tokens and of access are answered here, from what a test grants.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec

from edl.api.kubernetes import timestamp
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.http.direct import direct_transport
from edl.jobs.registry import TRAINING_JOB
from edl.kube.rest.access_reviews import Reviews
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import Request, Response, Transport
from edl.operator.crds import register_crds
from edl.operator.resources import NAMESPACES, NODES, PODS, resource_of
from edl.web.access.sessions import Sessions
from edl.web.access.viewers import ClusterDoor
from edl.web.model.history import History
from edl.web.model.state import ClusterState
from edl.web.server import WebServer, WebSettings

KIND = TRAINING_JOB.crd_name
JOBS = resource_of(TRAINING_JOB)
PATIENCE = 60.0
Data = dict[str, Any]


class Api:
    """A transport that answers reviews itself, and that a test can take away."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.away = False
        self.users: dict[str, Callable[[Data], bool]] = {}
        """Token to what its bearer may do: a function of resourceAttributes."""
        self.reviews = 0
        self.log: Callable[[Request], Any] | None = None

    async def request(self, request: Request) -> Response:
        if self.away:
            raise ConnectionLostError("the API server is away")
        if request.path.endswith("reviews"):
            self.reviews += 1
            return Response(201, msgspec.json.encode(self._review(request)))
        return await self._inner.request(request)

    def _review(self, request: Request) -> Data:
        spec = msgspec.json.decode(request.body or b"", type=dict[str, Any])["spec"]
        if request.path.endswith("/tokenreviews"):
            known = spec["token"] in self.users
            return {"status": {"authenticated": known, "user": {"username": spec["token"]} if known else {}}}
        may = self.users.get(spec["user"], nothing)
        return {"status": {"allowed": may(spec["resourceAttributes"])}}

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        if self.away:
            raise ConnectionLostError("the API server is away")
        if self.log is not None and request.path.endswith("/log"):
            yield Response(200, chunks=self.log(request))
            return
        async with self._inner.stream(request) as answer:
            assert answer.chunks is not None
            yield Response(answer.code, chunks=self._while_here(answer.chunks), headers=answer.headers)

    async def _while_here(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        taken = asyncio.create_task(_next(chunks))
        try:
            while True:
                done, _ = await asyncio.wait({taken}, timeout=0.05)
                if self.away:
                    raise ConnectionLostError("the API server is away")
                if done:
                    chunk = taken.result()
                    if chunk is None:
                        return
                    yield chunk
                    taken = asyncio.create_task(_next(chunks))
        finally:
            taken.cancel()
            await asyncio.gather(taken, return_exceptions=True)

    async def close(self) -> None:
        await self._inner.close()


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def nothing(asked: Data) -> bool:
    return False


def everything(asked: Data) -> bool:
    return True


def only_in(*namespaces: str) -> Callable[[Data], bool]:
    """What Kubernetes' `view` role gives in some namespaces."""
    return lambda asked: asked.get("namespace") in namespaces and asked["verb"] in ("get", "list", "watch")


class World:
    def __init__(self, api: Api, client: Client, state: ClusterState, session: aiohttp.ClientSession) -> None:
        self.api, self.client, self.state, self._session = api, client, state, session
        self.sessions = Sessions()
        self.url = self.api_url = ""

    async def serve(self, stack: contextlib.AsyncExitStack, settings: WebSettings, history: History | None) -> None:
        door = ClusterDoor(Reviews(self.client), lambda token: self.client)
        server = WebServer(self.state, door, settings, sessions=self.sessions, history=history)
        runner = await server.serve("127.0.0.1", 0)
        stack.push_async_callback(runner.cleanup)
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    # Calls.

    async def ask(
        self, method: str, path: str, *, token: str = "admin", body: object = None, **headers: str
    ) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if method != "GET":
            sent["EDL-Request"] = "1"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self._session.request(
            method, f"{self.url}{path}", data=data, headers={name: value for name, value in sent.items() if value}
        ) as answer:
            raw = await answer.read()
            return answer.status, msgspec.json.decode(raw) if raw and answer.content_type == "application/json" else raw

    async def get(self, path: str, token: str = "admin") -> tuple[int, Any]:
        return await self.ask("GET", f"/api/v1/{path}", token=token)

    @contextlib.asynccontextmanager
    async def stream(self, query: str, token: str = "admin") -> AsyncIterator["Stream"]:
        headers = {"Authorization": f"Bearer {token}"}
        timeout = aiohttp.ClientTimeout(total=PATIENCE * 2)
        async with self._session.get(f"{self.url}/api/v1/stream?{query}", headers=headers, timeout=timeout) as answer:
            yield Stream(answer)

    # The cluster.

    async def namespace(self, name: str) -> None:
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})

    async def node(self, name: str, cpu: str = "8", gpu: str = "0") -> None:
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110", "nvidia.com/gpu": gpu}
        await self.client.create(NODES, {"metadata": {"name": name}})
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(NODES, name, {"status": status}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})  # a new node is tainted until it is ready

    async def job(self, name: str, namespace: str = "default", **status: Any) -> Data:
        trainer = {"entrypoint": "train", "min-instance": 1, "max-instance": 8}
        body = {
            "apiVersion": "paddlepaddle.org/v1",
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"fault_tolerant": True, "trainer": trainer},
        }
        made = await self.client.create(JOBS, body, namespace=namespace)
        await self.status(name, namespace, **({"phase": "Running", **sized(2)} | status))
        return made

    async def status(self, name: str, namespace: str = "default", **status: Any) -> None:
        await self.client.patch(JOBS, name, {"status": status}, namespace=namespace, subresource="status")

    async def pod(self, job: Data, index: int, node: str, cpu: str = "1") -> str:
        meta = job["metadata"]
        name = f"{meta['name']}-trainer-{index}"
        labels = {"edl.dev/job": meta["name"], "edl.dev/kind": KIND, "edl.dev/job-uid": meta["uid"]}
        owner = {"apiVersion": job["apiVersion"], "kind": "TrainingJob", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "metadata": {
                "name": name,
                "labels": labels | {"edl.dev/role": "trainer", "edl.dev/index": str(index)},
                "ownerReferences": [owner | {"controller": True}],
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "trainer", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            },
        }
        await self.client.create(PODS, body, namespace=meta["namespace"])
        status = {"phase": "Running", "startTime": timestamp.text(time.time())}
        await self.client.patch(PODS, name, {"status": status}, namespace=meta["namespace"], subresource="status")
        return name

    async def until(self, condition: Callable[[], object], what: str) -> None:
        with self.state.listening() as changed:
            try:
                async with asyncio.timeout(PATIENCE):
                    while not condition():
                        changed.clear()
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(0.1):
                                await changed.wait()
            except TimeoutError:
                raise AssertionError(f"never came true: {what}") from None

    async def shown(self, *names: str) -> None:
        wanted = set(names)
        await self.until(lambda: wanted <= {row.name for row in self.state.jobs.rows()}, f"{wanted} are shown")


class Stream:
    """Events of a stream, one after the other."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer, self.status = answer, answer.status

    async def next(self, event: str) -> Any:
        """The next one of this name."""
        async with asyncio.timeout(PATIENCE):
            name = ""
            async for raw in self.answer.content:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: ") and name == event:
                    return msgspec.json.decode(line[6:])
        raise AssertionError(f"the stream has ended without {event}")


def sized(now: int, target: int | None = None, **more: Any) -> Data:
    return {"scale_status": {"current": now, "target": now if target is None else target, **more}}


@contextlib.asynccontextmanager
async def world(settings: WebSettings | None = None, *, history: History | None = None) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(Server(None, tokens={"t": ADMIN}))
        api = Api(direct_transport(server.api))
        api.users["admin"] = everything
        client = Client(api, rate_limiter=RateLimiter(qps=10_000, burst=10_000), timeout=60.0)
        await register_crds(client)
        state = ClusterState(client, gather=0.01)
        await stack.enter_async_context(state.running())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        made = World(api, client, state, session)
        made.api_url = server.url
        await made.serve(stack, settings or WebSettings(), history)
        await state.wait_synced()
        yield made
