"""A simulated cluster for the operator: an API server in this process, with kubelets and controllers simulated.

The simulation starts pods and fills ReplicaSets quickly and only as a test says, so that a test can say "this pod does
not start" or "that node refuses it". Tests with real processes are in `tests/stories`.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from edl.api.kubernetes import timestamp
from edl.cli.local.admission import edl_rules
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.http.direct import direct_transport
from edl.jobs.registry import JOB_KINDS
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import Request, Response, Transport
from edl.operator.main import run_operator
from edl.operator.resources import JOBS, NODES, PODS, REPLICA_SETS, SECRETS, SERVICES, TRAINING_JOBS, resource_of
from edl.operator.settings import LEASE, NAMESPACE, OperatorSettings

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
TOKEN = "stage"
PATIENCE = 60.0
TURNS = 20
LEASE_SECONDS = 30.0  # calls that renew it may take a fifth of that: on a busy machine a short one is lost
Data = dict[str, Any]


class CrashedError(Exception):
    """The operator's process is gone: nothing it sends arrives any more."""


class Wire:
    """A transport that counts the operator's writes and can cut it off after any of them."""

    def __init__(self, inner: Transport, *, crash_after: int | None = None) -> None:
        self._inner = inner
        self.writes: list[str] = []
        self.crash_after = crash_after
        self.crashed = asyncio.Event()

    async def request(self, request: Request) -> Response:
        if self.crashed.is_set():
            raise CrashedError
        response = await self._inner.request(request)
        if request.method != "GET" and counts(request):
            self.writes.append(f"{request.method} {request.path}")
            if self.crash_after is not None and len(self.writes) >= self.crash_after:
                self.crashed.set()
                raise CrashedError
        return response

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[Response]:
        return self._inner.stream(request)

    async def quiet(self, seconds: float) -> None:
        """Returns once nothing was written for so long; a machine that is busy is given as many turns as any other."""
        async with asyncio.timeout(PATIENCE):
            count, turns = len(self.writes), 0
            while turns < TURNS:
                await asyncio.sleep(seconds / TURNS)
                count, turns = len(self.writes), turns + 1 if count == len(self.writes) else 0

    async def close(self) -> None:
        await self._inner.close()


def counts(request: Request) -> bool:
    """Leases and Events are no part of what is done for a job."""
    return "/leases" not in request.path and "/events" not in request.path


class Stage:
    def __init__(self, server: Server) -> None:
        self._server, self.url = server, server.url
        self.client = Client(self.transport(), rate_limiter=RateLimiter(qps=10_000, burst=10_000))
        self.jobs = TRAINING_JOBS
        """The kind that a story is about."""
        self.asleep: set[str] = set()
        """Pods that do not start, by name."""
        self.registered = False
        """The kinds are known, which they are once an operator has been there."""

    def transport(self) -> Transport:
        return direct_transport(self._server.api)

    # The operator.

    @contextlib.asynccontextmanager
    async def operator(self, wire: Wire | None = None, **settings: Any) -> AsyncIterator[Wire]:
        """Runs one until the block ends, in good order unless it crashed."""
        wire = wire or Wire(self.transport())
        async with self.standby(wire, **settings) as (_, leads):
            waiting = [asyncio.create_task(event.wait()) for event in (leads, wire.crashed)]
            await asyncio.wait(waiting, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            assert leads.is_set() or wire.crashed.is_set(), "the operator never led"
            self.registered = True
            yield wire

    @contextlib.asynccontextmanager
    async def standby(
        self, wire: Wire | None = None, *, clock: Callable[[], float] = time.time, **settings: Any
    ) -> AsyncIterator[tuple[Wire, asyncio.Event]]:
        """One that may or may not lead; the event is set once it does."""
        wire = wire or Wire(self.transport())
        stop, leads = asyncio.Event(), asyncio.Event()
        quick = {"service": None, "lease": LEASE_SECONDS, "interval": 1.0, "debounce": 0.01, "settle": 0.1}
        chosen = OperatorSettings(**(quick | {"identity": f"op-{os.urandom(3).hex()}"} | settings))
        task = asyncio.create_task(run_operator(wire, chosen, stop=stop, on_leading=leads.set, clock=clock))
        try:
            yield wire, leads
        finally:
            stop.set()
            if wire.crashed.is_set():
                task.cancel()
            await asyncio.gather(task, return_exceptions=wire.crashed.is_set())
            await wire.close()

    async def release_lease(self) -> None:
        """What time does to the lease of a leader that is gone."""
        free = {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
        await self.client.patch(LEASES, LEASE, free, namespace=NAMESPACE)

    # The user.

    async def submit(self, name: str = "j", **spec: Any) -> Data:
        return await self.make(manifest(name, **spec))

    async def make(self, job: Data) -> Data:
        return await self.client.create(self.jobs, job, namespace="default")

    async def edit(self, change: Data, name: str = "j") -> None:
        await self.client.patch(self.jobs, name, change, namespace="default")

    async def delete(self, resource: Resource, name: str, **how: Any) -> None:
        await self.client.delete(resource, name, namespace="default", **how)

    async def get(self, resource: Resource, name: str) -> Data | None:
        return await self.client.find(resource, name, namespace="default" if resource.namespaced else None)

    async def job(self, name: str = "j") -> Data:
        found = await self.get(self.jobs, name)
        assert found is not None
        return found

    async def status(self, name: str = "j") -> Data:
        found: Data = (await self.job(name)).get("status") or {}
        return found

    async def until_phase(self, phase: str, name: str = "j") -> Data:
        found: Data = await self.until(lambda: self._phase_is(name, phase), f"{name} is {phase}", name)
        return found

    async def _phase_is(self, name: str, phase: str) -> Data | None:
        status = await self.status(name)
        return status if status.get("phase") == phase else None

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str, name: str = "j") -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await condition()):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never came true: {what}; {await self.get(self.jobs, name)}") from None
        return found

    async def until_condition(self, kind: str, status: str = "True", name: str = "j") -> Data:
        async def matching() -> Data | None:
            conditions = (await self.status(name)).get("conditions", ())
            return next((one for one in conditions if (one["type"], one["status"]) == (kind, status)), None)

        found: Data = await self.until(matching, f"condition {kind} is {status}", name)
        return found

    async def events(self, name: str = "j") -> list[str]:
        page = await self.client.list(EVENTS, namespace="default")
        mine = [event for event in page.items if event["regarding"]["name"] == name]
        return [f"{event['reason']}: {event['note']}" for event in mine]

    async def until_event(self, reason: str, name: str = "j") -> str:
        async def matching() -> str:
            return next((event for event in await self.events(name) if event.startswith(f"{reason}:")), "")

        found: str = await self.until(matching, f"event {reason}", name)
        return found

    async def pods(self, role: str = "trainer", name: str = "j") -> list[str]:
        """Those that live."""
        page = await self.client.list(PODS, namespace="default", labels={"edl.dev/job": name, "edl.dev/role": role})
        return sorted(
            pod["metadata"]["name"]
            for pod in page.items
            if "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        )

    # The cluster.

    async def add_node(self, name: str, cpu: str = "8") -> None:
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }
        await self.client.create(NODES, node)
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(NODES, name, {"status": status}, subresource="status")
        await self.client.patch(NODES, name, {"spec": {"taints": None}})  # a new node is tainted until it is ready

    async def end(self, name: str, code: int, message: str = "") -> None:
        """The pod's container ends by itself."""
        now = timestamp.text(time.time())
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}}
        state["terminated"] |= {"startedAt": now, "finishedAt": now}
        await self.set_pod(name, "Failed" if code else "Succeeded", state)

    async def set_pod(self, name: str, phase: str, state: Data, **more: Any) -> None:
        pod = await self.client.get(PODS, name, namespace="default")
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {
            "phase": phase,
            "conditions": [ready],
            "containerStatuses": [
                {
                    "name": pod["spec"]["containers"][0]["name"],
                    "image": "x",
                    "imageID": "",
                    "restartCount": 0,
                    "ready": phase == "Running",
                    "state": state,
                }
            ],
            **more,
        }
        if phase == "Running":
            status["startTime"] = timestamp.text(time.time())
        await self.client.patch(PODS, name, {"status": status}, namespace="default", subresource="status")

    async def work(self) -> None:
        """Simulates kubelets and controllers, for ever."""
        seen = -1
        while True:
            before, seen = seen, self._server.store.rv
            try:
                if before != seen:
                    await self._tidy()
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
                seen = -1
            await asyncio.sleep(0.02)

    async def _tidy(self) -> None:
        pods = (await self.client.list(PODS, namespace="default")).items
        for pod in pods:
            await self._tend(pod)
        sets = (await self.client.list(REPLICA_SETS, namespace="default")).items
        for replica_set in sets:
            await self._replicate(replica_set, pods)
        await self._collect()

    async def _collect(self) -> None:
        """What belongs to something that is gone goes, too."""
        owned = (PODS, SERVICES, REPLICA_SETS, JOBS, SECRETS)
        found = {resource: (await self.client.list(resource, namespace="default")).items for resource in owned}
        kinds = JOB_KINDS if self.registered else ()
        jobs = [
            item for kind in kinds for item in (await self.client.list(resource_of(kind), namespace="default")).items
        ]
        uids = {item["metadata"]["uid"] for items in (*found.values(), jobs) for item in items}
        for resource, items in found.items():
            for item in items:
                owners = item["metadata"].get("ownerReferences") or ()
                if owners and not any(owner["uid"] in uids for owner in owners):
                    uid = item["metadata"]["uid"]
                    await self.client.delete(resource, item["metadata"]["name"], namespace="default", uid=uid)

    async def _tend(self, pod: Data) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            await self.client.delete(PODS, name, namespace="default", grace=0, uid=pod["metadata"]["uid"])
        elif name not in self.asleep and pod.get("status", {}).get("phase", "Pending") == "Pending":
            if not pod["spec"].get("nodeName"):
                binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
                await self.client.create(PODS, binding, name=name, namespace="default", subresource="binding")
            await self.set_pod(name, "Running", {"running": {"startedAt": timestamp.text(time.time())}})

    async def _replicate(self, replica_set: Data, pods: list[Data]) -> None:
        metadata = replica_set["metadata"]
        mine = [
            pod
            for pod in pods
            if any(owner["uid"] == metadata["uid"] for owner in pod["metadata"].get("ownerReferences", ()))
            and "deletionTimestamp" not in pod["metadata"]
        ]
        for _ in range(replica_set["spec"]["replicas"] - len(mine)):
            template = replica_set["spec"]["template"]
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"]}
            made = dict(template["metadata"], generateName=f"{metadata['name']}-")
            made["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}
            await self.client.create(PODS, body, namespace="default")
        for pod in mine[replica_set["spec"]["replicas"] :]:
            await self.client.delete(PODS, pod["metadata"]["name"], namespace="default", grace=0)


async def play(scene: Stage, story: Callable[[Stage], Awaitable[None]], crash_after: int | None) -> list[str]:
    """The story under an operator that crashes after so many writes, and under the next one; what the first wrote."""
    async with scene.operator():
        pass  # registers the kinds, so that every write counted is one for the job
    wire = Wire(scene.transport(), crash_after=crash_after)
    reported = asyncio.ensure_future(story(scene))
    async with scene.operator(wire):
        crashed = asyncio.create_task(wire.crashed.wait())
        await asyncio.wait({reported, crashed}, return_when=asyncio.FIRST_COMPLETED)
        crashed.cancel()
    if not reported.done():
        await scene.release_lease()
        async with scene.operator():
            await reported
    await reported
    return wire.writes


def manifest(name: str = "j", **spec: Any) -> Data:
    trainer = {"entrypoint": "true", "min-instance": 2, "max-instance": 2} | spec.pop("trainer", {})
    trainer.setdefault("resources", {"requests": {"cpu": "1"}})
    spec = {"image": "x", "fault_tolerant": True, "master": {}, "pserver": {}, "trainer": trainer} | spec
    spec = {field: value for field, value in spec.items() if value is not None}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}


@contextlib.asynccontextmanager
async def stage(*, nodes: int = 1, cpu: str = "8", lenient: bool = False) -> AsyncIterator[Stage]:
    """`lenient`: the server lets jobs in that only their schema has checked, as one without a webhook does."""
    rules: Any = {} if lenient else {"custom_admission": edl_rules}
    async with Server(None, tokens={TOKEN: ADMIN}, **rules) as server:
        scene = Stage(server)
        for number in range(1, nodes + 1):
            await scene.add_node(f"n{number}", cpu)
        hand = asyncio.create_task(scene.work())
        try:
            yield scene
        finally:
            hand.cancel()
            await asyncio.gather(hand, return_exceptions=True)
            await scene.client.close()
