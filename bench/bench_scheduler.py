"""CPU time of one scheduling decision, and how it grows with jobs and with nodes.

The cluster is nodes of 4 GPUs, 5 jobs for every 2 of them or so, full but for a few GPUs: PyTorch jobs of 1 to 8
workers, a third of them TrainingJobs with a master and a parameter server, of four priorities and nine shapes.
`cold` reads every object anew, as after a start; `warm` is what the operator pays each cycle: the snapshot with a
hundredth of the pods changed, and the plan. The floor beside it is the time to look once at every pod and node of
the same snapshot, which any planner must.
"""

import functools
import gc
import math
import sys
import time
from collections.abc import Callable
from typing import Any

from msgspec import structs

from edl.api.kubernetes.core import Pod, convert
from edl.scheduler.plan import Plan, plan
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import SnapshotBuilder
from edl.scheduler.snapshot.objects import Objects, from_plain

NOW = 1_900_000_000.0
GPUS = 4
Data = dict[str, Any]


def node(number: int) -> Data:
    have = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05}", "labels": {"kubernetes.io/hostname": f"node-{number:05}"}},
        "status": {"allocatable": have, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def asked(cpu: int, gpu: int) -> Data:
    amounts = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"} | ({"nvidia.com/gpu": str(gpu)} if gpu else {})
    return {"requests": amounts, "limits": amounts}


def job(number: int) -> Data:
    """Every third one is a TrainingJob; shapes and priorities take turns."""
    gpu, cpu = (1, 2, 1)[number % 3], 2 + number % 3
    levels = ("Normal", "Production", "Offline", "Experiment")
    metadata = {
        "name": f"job-{number:05}",
        "namespace": f"team-{number % 16}",
        "uid": f"uid-{number}",
        "creationTimestamp": "2030-03-17T10:00:00Z",
        "annotations": {"edl.dev/priority": levels[number % 4]},
    }
    most = 2 + number % 7
    if number % 3 == 2:
        spec: Data = {
            "image": "x",
            "master": {"resources": asked(1, 0)},
            "pserver": {"min-instance": 1, "resources": asked(1, 0)},
            "trainer": {"entrypoint": "t", "min-instance": 1, "max-instance": most, "resources": asked(cpu, gpu)},
        }
        return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": metadata, "spec": spec}
    container = {"name": "worker", "image": "x", "resources": asked(cpu, gpu)}
    worker = {"template": {"spec": {"containers": [container]}}}
    spec = {"minReplicas": 1, "maxReplicas": most, "replicaSpecs": {"Worker": worker}}
    return {"apiVersion": "elastic.pytorch.org/v1alpha1", "kind": "ElasticJob", "metadata": metadata, "spec": spec}


class Cluster:
    """Jobs at what the scheduler itself gives them on an empty cluster; then a few end and a few come."""

    def __init__(self, jobs: int, nodes: int, policy: str = "cfs") -> None:
        self.plain_jobs = [job(number) for number in range(jobs)]
        self.nodes = from_plain([node(number) for number in range(nodes)]).nodes
        typed = from_plain(self.plain_jobs).jobs
        empty = SnapshotBuilder().build(Objects(nodes=self.nodes, jobs=typed))
        first = plan(empty, now=NOW, settings=Settings(policy=policy))
        by_uid = {one.metadata.uid: one for one in typed}
        self.pods: list[Pod] = []
        self.jobs = []
        for decision in first.jobs:
            found = by_uid[decision.uid]
            self.jobs.append(found)
            for role, places in decision.placements.items():
                self.pods += self._pods(found, role, places)

    def _pods(self, owner: Any, role: str, places: Any) -> list[Pod]:
        resources = _resources(owner, role)
        made = []
        for name, count in places.items():
            for number in range(count):
                uid = f"{owner.metadata.uid}-{role}-{name}-{number}"
                reference = {"kind": owner.kind, "apiVersion": owner.api_version, "name": owner.metadata.name}
                plain = {
                    "metadata": {
                        "name": uid,
                        "namespace": owner.metadata.namespace,
                        "uid": uid,
                        "labels": {"edl.dev/job": owner.metadata.name, "edl.dev/role": role},
                        "ownerReferences": [reference | {"uid": owner.metadata.uid, "controller": True}],
                    },
                    "spec": {"nodeName": name, "containers": [{"name": role, "resources": resources}]},
                    "status": {"phase": "Running", "startTime": "2030-03-17T11:00:00Z"},
                }
                made.append(convert(plain, Pod))
        return made

    def objects(self) -> Objects:
        return Objects(nodes=self.nodes, pods=tuple(self.pods), jobs=tuple(self.jobs))

    def churn(self) -> None:
        """A hundredth of the pods are seen anew, as after a heartbeat of theirs."""
        for place in range(0, len(self.pods), 100):
            self.pods[place] = structs.replace(self.pods[place])


def _resources(owner: Any, role: str) -> Data:
    number = int(owner.metadata.name.removeprefix("job-"))
    return asked(1, 0) if role in ("master", "pserver") else asked(2 + number % 3, (1, 2, 1)[number % 3])


def cpu_time(work: Callable[[], object], repeats: int) -> float:
    """The best of several, in seconds of CPU: the machine may be busy with other things."""
    best = math.inf
    for _ in range(repeats):
        gc.collect()
        gc.freeze()  # as the operator does: what lasts is not looked at again and again
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def floor_of(objects: Objects) -> int:
    total = 0
    for pod in objects.pods:
        total += len(pod.spec.node_name) + len(pod.metadata.uid)
    for one in objects.nodes:
        total += len(one.metadata.name)
    return total


class Row:
    def __init__(self, jobs: int, nodes: int) -> None:
        cluster = Cluster(jobs, nodes)
        self.jobs, self.nodes, self.pods = jobs, nodes, len(cluster.pods)
        repeats = 20 if jobs <= 100 else 5 if jobs <= 3000 else 3
        self.empty = cpu_time(lambda: _whole(Objects(nodes=cluster.nodes, jobs=tuple(cluster.jobs))), min(repeats, 3))
        self.cold = cpu_time(lambda: _whole(cluster.objects()), min(repeats, 5))
        builder, cache = SnapshotBuilder(), PlanCache()
        snapshot = builder.build(cluster.objects())
        memory = plan(snapshot, now=NOW, cache=cache).memory
        self.plan = cpu_time(lambda: plan(snapshot, memory, now=NOW, cache=cache), repeats)

        def cycle() -> Plan:
            cluster.churn()
            return plan(builder.build(cluster.objects()), memory, now=NOW, cache=cache)

        self.warm = cpu_time(cycle, repeats)
        self.floor = cpu_time(lambda: floor_of(cluster.objects()), repeats)

    def show(self) -> str:
        times = f"{self.plan * 1e3:9.2f} {self.warm * 1e3:9.2f} {self.cold * 1e3:9.2f} {self.empty * 1e3:9.2f}"
        ratio = self.warm / self.floor if self.floor else math.nan
        return f"{self.jobs:7} {self.nodes:7} {self.pods:7} {times} {self.floor * 1e3:9.2f} {ratio:9.1f}"


def against_cfs(jobs: int, nodes: int) -> str:
    """A plan of each policy for a cluster at its own sizes, at rest but for a few jobs."""
    times = {}
    for policy in ("cfs", "goodput"):
        cluster, chosen, cache = Cluster(jobs, nodes, policy), Settings(policy=policy), PlanCache()
        snapshot = SnapshotBuilder().build(cluster.objects())
        memory = plan(snapshot, now=NOW, settings=chosen, cache=cache).memory
        again = functools.partial(plan, snapshot, memory, now=NOW, settings=chosen, cache=cache)
        times[policy] = cpu_time(again, 5)
    ratio = times["goodput"] / times["cfs"]
    shown = ", ".join(f"{policy} {seconds * 1e3:.1f} ms" for policy, seconds in times.items())
    return f"{jobs} jobs, {nodes} nodes: {shown}, {ratio:.1f}x"


def _whole(objects: Objects) -> Plan:
    return plan(SnapshotBuilder().build(objects), now=NOW)


def slope(rows: list[Row], by: Callable[[Row], int]) -> float:
    """Least squares on logarithms."""
    xs = [math.log(by(row)) for row in rows]
    ys = [math.log(row.warm) for row in rows]
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    up = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return up / sum((x - middle_x) ** 2 for x in xs)


HEAD = "   jobs   nodes    pods   plan ms   warm ms   cold ms  empty ms  floor ms  to floor"


def main() -> None:
    quick = "--quick" in sys.argv
    print(HEAD)
    for jobs, nodes in ((20, 16), (2560, 1024)) + (() if quick else ((10_000, 12_500),)):
        print(Row(jobs, nodes).show(), flush=True)
    print("a plan at rest:", against_cfs(2560, 1024), flush=True)
    by_jobs = [Row(jobs, 1024) for jobs in ((320, 640, 1280) if quick else (320, 640, 1280, 2560, 5120))]
    by_nodes = [Row(1280, nodes) for nodes in ((512, 1024, 2048) if quick else (512, 1024, 2048, 4096, 8192))]
    for row in (*by_jobs, *by_nodes):
        print(row.show(), flush=True)
    print(f"log-log slope of warm: {slope(by_jobs, lambda row: row.jobs):.2f} in jobs (1024 nodes)", end=", ")
    print(f"{slope(by_nodes, lambda row: row.nodes):.2f} in nodes (1280 jobs)")


if __name__ == "__main__":
    main()
