"""Kubernetes objects for tests, as plain data, and the short way from them to a plan."""

from collections.abc import Iterable, Mapping
from typing import Any

from edl.api.kubernetes import timestamp
from edl.scheduler.memory import Memory
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import build_snapshot
from edl.scheduler.snapshot.objects import from_plain
from edl.scheduler.snapshot.types import Snapshot

Data = dict[str, Any]
NOW = 1_900_000_000.0
GPU = "nvidia.com/gpu"


def stamp(seconds_ago: float = 0.0) -> str:
    return timestamp.text(NOW - seconds_ago)


def node(name: str, cpu: Any = 16, memory: Any = "64Gi", gpu: int = 0, **more: Any) -> Data:
    """`ready`, `cordoned`, `labels`, `taints`, `pods`, `extra` (other resources)."""
    have = {"cpu": str(cpu), "memory": str(memory), "pods": str(more.get("pods", 110)), **more.get("extra", {})}
    if gpu:
        have[GPU] = str(gpu)
    ready = "True" if more.get("ready", True) else "False"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **more.get("labels", {})}},
        "spec": {"unschedulable": more.get("cordoned", False), "taints": more.get("taints", [])},
        "status": {"capacity": have, "allocatable": have, "conditions": [{"type": "Ready", "status": ready}]},
    }


def resources(cpu: Any = 1, memory: Any = "1Gi", gpu: int = 0, **limits: Any) -> Data:
    asked = {"cpu": str(cpu), "memory": str(memory)} | ({GPU: str(gpu)} if gpu else {})
    return {"requests": asked, "limits": {**asked, **{name: str(value) for name, value in limits.items()}}}


def pod(name: str, on: str = "", cpu: Any = 1, memory: Any = "1Gi", gpu: int = 0, **more: Any) -> Data:
    """Someone else's. `namespace`, `age`, `refused` (seconds ago), `leaving`, `phase`, `spec`, `labels`, `owner`."""
    spec: Data = {"containers": [{"name": "main", "image": "x", "resources": resources(cpu, memory, gpu)}]}
    if on:
        spec["nodeName"] = on
    age = more.get("age", 60)
    metadata: Data = {
        "name": name,
        "namespace": more.get("namespace", "default"),
        "uid": more.get("uid", f"uid-{more.get('namespace', 'default')}-{name}"),
        "creationTimestamp": stamp(age),
        "labels": more.get("labels", {}),
    }
    status: Data = {"phase": more.get("phase", "Running" if on else "Pending")}
    if on and status["phase"] == "Running":
        status["startTime"] = stamp(age)
    if "refused" in more:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status["conditions"] = [condition | {"lastTransitionTime": stamp(more["refused"])}]
    if "leaving" in more:
        metadata["deletionTimestamp"] = stamp(-more["leaving"])
    if "owner" in more:
        metadata["ownerReferences"] = [more["owner"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec | more.get("spec", {}),
        "status": status,
    }


def training_job(name: str, least: int = 1, most: int | None = None, **more: Any) -> Data:
    """`cpu`, `memory`, `gpu` of a trainer; `master`, `pserver`, `etcd`; `trainer`, `spec`, `status`..."""
    trainer: Data = {
        "entrypoint": "python train.py",
        "min-instance": least,
        "max-instance": least if most is None else most,
        "resources": resources(more.get("cpu", 1), more.get("memory", "1Gi"), more.get("gpu", 0)),
    }
    spec: Data = {"image": "x", "fault_tolerant": True, "trainer": trainer | more.get("trainer", {})}
    master = more.get("master", {"resources": resources("100m", "100Mi")})
    if master is not None:
        spec["master"] = master
    for role in ("pserver", "etcd"):
        if role in more:
            spec[role] = more[role]
    namespace = more.get("namespace", "default")
    made: Data = {
        "apiVersion": more.get("version", "paddlepaddle.org/v1"),
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": more.get("uid", f"uid-{namespace}-{name}"),
            "creationTimestamp": stamp(more.get("age", 10)),
            "annotations": more.get("annotations", {}),
        },
        "spec": spec | more.get("spec", {}),
    }
    if "status" in more:
        made["status"] = more["status"]
    return made


def elastic_job(name: str, least: int = 1, most: int = 1, **more: Any) -> Data:
    """The PyTorch kind."""
    asked = resources(more.get("cpu", 1), more.get("memory", "1Gi"), more.get("gpu", 0))
    worker: Data = {"template": {"spec": {"containers": [{"name": "worker", "image": "x", "resources": asked}]}}}
    worker["template"]["spec"] |= more.get("template", {})
    if "replicas" in more:
        worker["replicas"] = more["replicas"]
    namespace = more.get("namespace", "default")
    made: Data = {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": more.get("uid", f"uid-{namespace}-{name}"),
            "creationTimestamp": stamp(more.get("age", 10)),
            "annotations": more.get("annotations", {}),
        },
        "spec": {"minReplicas": least, "maxReplicas": most, "replicaSpecs": {"Worker": worker}} | more.get("spec", {}),
    }
    if "status" in more:
        made["status"] = more["status"]
    return made


def reference(job: Data) -> Data:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"].get("uid", ""),
        "controller": True,
    }


def pods_of(job: Data, places: Mapping[str, int] | Iterable[str], role: str | None = None, **more: Any) -> list[Data]:
    """Live pods of a job's role on nodes: a list of nodes, or node to number."""
    role = role or ("trainer" if job["kind"] == "TrainingJob" else "worker")
    nodes = [on for on, count in places.items() for _ in range(count)] if isinstance(places, Mapping) else list(places)
    first = more.pop("first", 0)
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    asked = _asked(job, role)
    made = []
    for index, on in enumerate(nodes, first):
        one = pod(f"{name}-{role}-{index}", on, namespace=namespace, owner=reference(job), **more)
        one["metadata"]["labels"] |= {"edl.dev/job": name, "edl.dev/role": role, "edl.dev/index": str(index)}
        one["spec"]["containers"] = [{"name": role, "image": "x", "resources": asked}]
        made.append(one)
    return made


def _asked(job: Data, role: str) -> Data:
    if job["kind"] == "TrainingJob":
        asked: Data = job["spec"][role].get("resources", {})
        return asked
    template = job["spec"]["replicaSpecs"]["Worker"]["template"]
    worker: Data = template["spec"]["containers"][0]["resources"]
    return worker


def running(job: Data, places: Mapping[str, int] | Iterable[str], master: str = "", **more: Any) -> list[Data]:
    """A job that runs, with its trainers on these nodes and its master on that one."""
    made = [job, *pods_of(job, places, **more)]
    if job["kind"] == "TrainingJob" and "master" in job["spec"]:
        first = next(iter(places))
        made += pods_of(job, [master or first], "master", **more)
    return made


def child(job: Data, parallelism: int) -> Data:
    name = job["metadata"]["name"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{name}-trainer",
            "namespace": job["metadata"]["namespace"],
            "uid": f"uid-job-{name}",
            "ownerReferences": [reference(job)],
            "labels": {"edl.dev/job": name, "edl.dev/role": "trainer"},
        },
        "spec": {"parallelism": parallelism},
    }


def quota(namespace: str, used: Mapping[str, Any] | None = None, **hard: Any) -> Data:
    """Dots of a resource's name are written as two underscores."""
    lines = {name.replace("__", "."): str(value) for name, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"hard": lines},
        "status": {"hard": lines, "used": dict(used or {})},
    }


def flat(*objects: Any) -> list[Data]:
    found: list[Data] = []
    for one in objects:
        found += flat(*one) if isinstance(one, list | tuple) else [one]
    return found


def snapshot(*objects: Any) -> Snapshot:
    return build_snapshot(from_plain(flat(*objects)))


def planned(*objects: Any, now: float = NOW, memory: Memory | None = None, **settings: Any) -> Plan:
    return plan(snapshot(*objects), memory, now=now, settings=Settings(**settings))


def of(result: Plan, name: str, namespace: str = "default") -> Decision:
    return next(job for job in result.jobs if (job.namespace, job.name) == (namespace, name))


def targets(result: Plan) -> dict[str, int]:
    return {job.name: job.target for job in result.jobs}


ALL: dict[str, Any] = {"max_load": "1"}


def scaled(seconds_ago: float, target: int, **more: Any) -> Data:
    return {"scale": {"target": target, "current": target, "lastScaleTime": stamp(seconds_ago), **more}}
