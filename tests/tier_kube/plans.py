"""Random plans against the real kube-scheduler: jobs that it may see otherwise than our planner does.

A plan is settled when every pod that was made for it is bound and the job's target is what is bound; what the scheduler
will not place has to be withdrawn. Shared by the kube tier, which tries a few, and `make bench-kube`, which tries many.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edl.api.kubernetes import timestamp
from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from edl.operator.main import run_operator
from edl.operator.resources import NAMESPACES, NODES, PODS, TRAINING_JOBS
from edl.operator.settings import OperatorSettings
from tests.tier_kube.cluster.kwok import node

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
PATIENCE = 90.0
TAINT = {"key": "edl.dev/special", "value": "true", "effect": "NoSchedule"}
Data = dict[str, Any]


@dataclass
class Tally:
    """What became of plans. `slowest`: the longest that a pod was there without a node, in seconds."""

    fates: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    @property
    def jobs(self) -> int:
        return self.fates.total()

    @property
    def made(self) -> int:
        """Plans that put somebody somewhere. For jobs that wait from the start none was made."""
        return self.jobs - self.fates["waits"]


class Plans:
    """Rounds of random jobs on random nodes, in namespaces of their own, with an operator that runs meanwhile."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        self._client, self._rng = client, rng
        self.tally = Tally()

    async def add_nodes(self, count: int) -> None:
        for number in range(count):
            body = self._node(f"plans-{number}")
            await self._client.create(NODES, body)
        await self._until(self._all_ready, "the nodes are ready")

    def _node(self, name: str) -> Data:
        rng = self._rng
        gpus = {"nvidia.com/gpu": str(rng.choice((2, 4)))} if rng.random() < 0.4 else {}
        cpu, memory = rng.choice(("4", "8", "16")), rng.choice(("16Gi", "32Gi"))
        body = node(name, {"cpu": cpu, "memory": memory, **gpus}, zone=rng.choice("abc"))
        if rng.random() < 0.2:
            body["spec"] = {"taints": [TAINT]}
        return body

    async def _all_ready(self) -> bool:
        """Kubernetes taints a node until it is ready."""
        nodes = (await self._client.list(NODES, labels={"edl.dev/kwok": "true"})).items
        taints = [taint["key"] for one in nodes for taint in one["spec"].get("taints", ())]
        return not any(key.startswith("node.kubernetes.io/") for key in taints) and all(_ready(one) for one in nodes)

    async def round(self, number: int, jobs: int) -> None:
        """So many jobs at once, beside pods that are not ours; ends when all is settled, and leaves nothing."""
        namespace = f"plans-{number}"
        await self._client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        try:
            await self._until(lambda: self._has_account(namespace), "pods may be made")
            for index in range(self._rng.randint(0, 4)):
                await self._client.create(PODS, _stranger(f"stranger-{index}", self._rng), namespace=namespace)
            names = [f"j{index}" for index in range(jobs)]
            for name in names:
                await self._client.create(TRAINING_JOBS, self._job(name), namespace=namespace)
            fates: dict[str, str] = dict.fromkeys(names, "")
            await self._until(
                lambda: self._settled(namespace, fates), f"the plans of round {number} are settled", fates
            )
            self.tally.fates.update(fates.values())
        finally:
            await self._client.delete(NAMESPACES, namespace)
        await self._until(lambda: self._empty(namespace), "the round has left no pod")

    def _job(self, name: str) -> Data:
        rng = self._rng
        least = rng.randint(1, 4)
        requests = {
            "cpu": rng.choice(("250m", "500m", "1", "2", "3500m")),
            "memory": rng.choice(("256Mi", "1Gi", "5Gi")),
        }
        if rng.random() < 0.2:
            requests["nvidia.com/gpu"] = rng.choice(("1", "2"))
        limits = {key: value for key, value in requests.items() if "/" in key}
        trainer = {
            "entrypoint": "true",
            "min-instance": least,
            "max-instance": least + rng.randint(0, 4),
            "resources": {"requests": requests, "limits": limits},
            "template": {"spec": rng.choice(_RULES)(name, rng)},
        }
        spec: Data = {"image": "x", "fault_tolerant": True, "freezing_window": "0s", "trainer": trainer}
        if rng.random() < 0.5:
            spec["master"] = {"command": ["true"], "resources": {"requests": {"cpu": "100m"}}}
        return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}

    async def _settled(self, namespace: str, fates: dict[str, str]) -> bool:
        """Of each job the first plan counts: what is withdrawn is tried again, later and later."""
        jobs = {
            one["metadata"]["name"]: one for one in (await self._client.list(TRAINING_JOBS, namespace=namespace)).items
        }
        pods = [one for one in (await self._client.list(PODS, namespace=namespace)).items if _is_ours(one)]
        now = time.time()
        waiting = [one for one in pods if not one["spec"].get("nodeName")]
        ages = [now - timestamp.seconds(one["metadata"]["creationTimestamp"]) for one in waiting]
        self.tally.slowest = max([self.tally.slowest, *ages])
        for name in [name for name, fate in fates.items() if not fate or fate.startswith("open")]:
            mine = [one for one in pods if one["metadata"]["labels"]["edl.dev/job"] == name]
            fates[name] = _fate(jobs[name], mine)
        return not any(fate.startswith("open") for fate in fates.values())

    async def _has_account(self, namespace: str) -> bool:
        try:
            await self._client.get(ACCOUNTS, "default", namespace=namespace)
        except ApiError:
            return False
        return True

    async def _empty(self, namespace: str) -> bool:
        return not (await self._client.list(PODS, namespace=namespace)).items

    async def _until(self, condition: Any, what: str, account: object = "") -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await condition():
                    await asyncio.sleep(0.3)
        except TimeoutError:
            raise AssertionError(f"did not come about: {what}; {account}") from None


def _fate(job: Data, pods: list[Data]) -> str:
    """What became of the plan, beginning with `open` as long as that is."""
    scale = job.get("status", {}).get("scale_status", {})
    trainers = [one for one in pods if one["metadata"]["labels"]["edl.dev/role"] == "trainer"]
    unbound = [one["metadata"]["name"] for one in pods if not one["spec"].get("nodeName")]
    target = scale.get("target")
    if target is None or unbound or len(trainers) != target:
        return f"open: target {target}, {len(trainers)} trainers, without a node: {unbound}"
    withdrawn = any(change.get("to", 0) < change.get("from", 0) for change in scale.get("history", ()))
    if target == 0:
        return "withdrawn" if withdrawn else "waits"
    return "bound in part" if withdrawn else "bound"


def _is_ours(pod: Data) -> bool:
    return "edl.dev/job" in pod["metadata"].get("labels", {}) and "deletionTimestamp" not in pod["metadata"]


def _ready(one: Data) -> bool:
    conditions = one.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _stranger(name: str, rng: random.Random) -> Data:
    requests = {"cpu": rng.choice(("500m", "2", "6")), "memory": "1Gi"}
    container = {"name": "c", "image": "x", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }


# Rules that a template may carry. The last ones nobody can plan for: only the scheduler knows.


def _none(name: str, rng: random.Random) -> Data:
    return {}


def _zone(name: str, rng: random.Random) -> Data:
    return {"nodeSelector": {"zone": rng.choice("abcd")}}


def _tolerant(name: str, rng: random.Random) -> Data:
    return {"tolerations": [{"key": TAINT["key"], "operator": "Exists"}]}


def _apart(name: str, rng: random.Random) -> Data:
    rule = {"labelSelector": {"matchLabels": {"edl.dev/job": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}


def _spread(name: str, rng: random.Random) -> Data:
    rule = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"edl.dev/job": name}},
    }
    return {"topologySpreadConstraints": [rule]}


def _host_port(name: str, rng: random.Random) -> Data:
    return {"containers": [{"name": "trainer", "ports": [{"containerPort": 9000, "hostPort": 9000}]}]}


def _no_volume(name: str, rng: random.Random) -> Data:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "nobody-made-it"}}]}


_RULES = (_none, _none, _none, _zone, _tolerant, _apart, _spread, _host_port, _no_volume)


@contextlib.asynccontextmanager
async def planning(kubeconfig: Path, seed: int, *, nodes: int) -> AsyncIterator[Plans]:
    """An operator and random nodes while the block runs; the nodes are taken away again."""
    client = Client(HttpTransport(from_kubeconfig([kubeconfig])), rate_limiter=RateLimiter(qps=1000, burst=1000))
    transport = HttpTransport(from_kubeconfig([kubeconfig]))
    stop, leads = asyncio.Event(), asyncio.Event()
    settings = OperatorSettings(namespace="edl-plans", service=None, lease=15.0)
    operator = asyncio.create_task(run_operator(transport, settings, stop=stop, on_leading=leads.set))
    plans = Plans(client, random.Random(seed))
    try:
        await plans.add_nodes(nodes)
        async with asyncio.timeout(PATIENCE):
            await leads.wait()
        yield plans
    finally:
        stop.set()
        await operator
        for each in (await client.list(NODES, labels={"edl.dev/kwok": "true"})).items:
            await client.delete(NODES, each["metadata"]["name"])
        await client.close()
        await transport.close()
