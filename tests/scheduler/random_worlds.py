"""Random small clusters from a seed: nodes of all sorts, jobs that run or wait, pods of others, quotas."""

import random
from typing import Any

from tests.scheduler.makers import (
    Data,
    child,
    elastic_job,
    node,
    pod,
    pods_of,
    quota,
    resources,
    stamp,
    training_job,
)

_CPUS = ("100m", "500m", 1, 2, 3)


def world(seed: int) -> list[Data]:
    """Plain objects. Pods are put on nodes only where they fit, as a cluster would."""
    chance = chance_of(seed)
    made = _World(chance)
    for number in range(chance.choice((0, 1, 2, 3, 3, 4, 5, 5))):
        made.add_node(number)
    for number in range(chance.randint(0, 4)):
        made.add_foreign(number)
    for number in range(chance.randint(0, 6)):
        made.add_job(number)
    if chance.random() < 0.2:
        made.objects.append(quota("default", pods=chance.randint(1, 20), requests__cpu=chance.randint(1, 30)))
    chance.shuffle(made.objects)
    return made.objects


def chance_of(seed: int) -> random.Random:
    """A stream of numbers that is the same every time."""
    return random.Random(seed)


class _World:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.objects: list[Data] = []
        self.free: dict[str, dict[str, float]] = {}
        self.open: dict[str, bool] = {}

    def add_node(self, number: int) -> None:
        chance = self.chance
        cpu, gpu = chance.choice((1, 2, 4, 8, 16)), chance.choice((0, 0, 2, 4, 8))
        name = f"n{number}"
        more: dict[str, Any] = {"labels": {"zone": chance.choice("ab")}, "pods": chance.choice((5, 30, 110))}
        more["ready"] = chance.random() < 0.9
        more["cordoned"] = chance.random() < 0.1
        if chance.random() < 0.15:
            more["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
        self.objects.append(node(name, cpu, "16Gi", gpu, **more))
        self.free[name] = {"cpu": cpu, "gpu": gpu, "pods": more["pods"], "memory": 16}
        self.open[name] = "taints" not in more

    def _place(self, cpu: float, gpu: int) -> str:
        for name in self.chance.sample(sorted(self.free), len(self.free)):
            free = self.free[name]
            if (
                self.open[name]
                and free["cpu"] >= cpu
                and free["gpu"] >= gpu
                and free["pods"] >= 1
                and free["memory"] >= 1
            ):
                free["cpu"] -= cpu
                free["gpu"] -= gpu
                free["pods"] -= 1
                free["memory"] -= 1
                return name
        return ""

    def add_foreign(self, number: int) -> None:
        chance = self.chance
        cpu = chance.choice((1, 2, 4))
        on = self._place(cpu, 0) if chance.random() < 0.5 else ""
        more: dict[str, Any] = {"age": chance.randint(1, 900)}
        if not on and chance.random() < 0.8:
            more["refused"] = chance.randint(0, 40)
        if chance.random() < 0.15:
            more["leaving"] = chance.choice((10, -5, -500))
        self.objects.append(pod(f"web-{number}", on, cpu, **more))

    def add_job(self, number: int) -> None:
        chance = self.chance
        least = chance.randint(1, 3)
        most = least + chance.choice((0, 1, 3, 8))
        cpu, gpu = chance.choice(_CPUS), chance.choice((0, 0, 1, 2))
        more: dict[str, Any] = {"age": chance.choice((0, 10, 400, 4000)), "annotations": self._notes(least, most)}
        if chance.random() < 0.5:
            job = elastic_job(f"e{number}", least, most, cpu=cpu, gpu=gpu, **more)
        else:
            if chance.random() < 0.4:
                servers = chance.randint(1, 2)
                more["pserver"] = {
                    "min-instance": servers,
                    "max-instance": servers + chance.choice((0, 2)),
                    "resources": resources("500m", "1Gi"),
                }
            job = training_job(f"t{number}", least, most, cpu=cpu, gpu=gpu, **more)
            if chance.random() < 0.2:
                del job["spec"]["master"]
        self.objects.append(job)
        if chance.random() < 0.6:
            self._run(job, float(str(cpu).rstrip("m")) / (1000 if str(cpu).endswith("m") else 1), gpu, least, most)

    def _notes(self, least: int, most: int) -> dict[str, str]:
        chance = self.chance
        notes = {}
        if chance.random() < 0.1:
            notes["edl.dev/pause"] = "true"
        if chance.random() < 0.1:
            notes["edl.dev/pin"] = "true"
        if chance.random() < 0.3:
            notes["edl.dev/priority"] = chance.choice(("Experiment", "Offline", "Production"))
        if chance.random() < 0.1:
            notes["edl.dev/admission"] = "create"
        if chance.random() < 0.1:
            notes["edl.dev/sizes"] = ",".join(str(size) for size in range(least, most + 1, 2))
        return notes

    def _run(self, job: Data, cpu: float, gpu: int, least: int, most: int) -> None:
        """Some of its pods exist; perhaps fewer than its minimum, or more than its maximum."""
        chance = self.chance
        size = chance.choice((least, most, chance.randint(1, most + 2)))
        nodes = [on for on in (self._place(cpu, gpu) for _ in range(size)) if on]
        more: dict[str, Any] = {"age": chance.randint(1, 5000)}
        self.objects += pods_of(job, nodes, **more)
        if len(nodes) < size and chance.random() < 0.5:
            self.objects += pods_of(job, [""] * (size - len(nodes)), first=50, refused=chance.choice((1, 60)))
        for role, asked in (("master", 0.1), ("pserver", 0.5)):
            if role in job["spec"]:
                count = job["spec"][role].get("min-instance", 1)
                placements = [on for on in (self._place(asked, 0) for _ in range(count)) if on]
                self.objects += pods_of(job, placements, role)
        scale: Data = {"target": size, "current": len(nodes)} if chance.random() < 0.7 else {}
        if scale and chance.random() < 0.6:
            key = "last_scale_time" if job["kind"] == "TrainingJob" else "lastScaleTime"
            scale[key] = stamp(chance.choice((1, 20, 100, 1000)))
        if scale:
            job["status"] = {("scale_status" if job["kind"] == "TrainingJob" else "scale"): scale}
        if job["kind"] == "TrainingJob" and chance.random() < 0.3:
            self.objects.append(child(job, size))
