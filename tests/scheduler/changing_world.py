"""A random cluster that changes step by step, each object converted only when it changes, as caches have it."""

import copy
import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from edl.scheduler.snapshot.objects import Objects, from_plain
from edl.throughput.measurements import MeasuredPoint, Measurements
from tests.scheduler.makers import Data, child, elastic_job, node, pod, pods_of, quota, stamp, training_job
from tests.scheduler.random_worlds import world

_FIELDS = tuple(name for name in Objects.__struct_fields__ if name not in ("measured", "complete"))
_NEAR = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


class ChangingWorld:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # a reproducible stream, not a secret
        self.plain: dict[str, Data] = {}
        self.typed: dict[str, Objects] = {}
        self.twice: list[Objects] = []
        self.measured: dict[str, tuple[int, Measurements]] = {}
        self.complete = False
        self.number = 0
        for one in world(seed):
            self._put(one)

    def objects(self) -> Objects:
        parts = [*self.typed.values(), *self.twice]
        fields: dict[str, Any] = {name: sum((getattr(one, name) for one in parts), start=()) for name in _FIELDS}
        return replace(Objects(**fields), measured=dict(self.measured), complete=self.complete)

    def change(self) -> None:
        """Something happens, most often to one pod or job."""
        happenings: list[Callable[[], object]] = [
            *[self._change_pod] * 6,
            *[self._change_job] * 4,
            *[self._change_node] * 3,
            self._come,
            self._come,
            self._go,
            self._go,
            self._change_child,
            self._change_quota,
            self._change_namespace,
            self._measure,
            self._reorder,
            self._see_again,
            self._list_twice,
            self._know_all,
        ]
        self.chance.choice(happenings)()

    def _put(self, one: Data) -> None:
        name = f"{one['kind']}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        self.plain[name], self.typed[name] = one, from_plain([one])

    def _some(self, *kinds: str) -> Data | None:
        names = [name for name in self.plain if name.split("/")[0] in kinds]
        return copy.deepcopy(self.plain[self.chance.choice(names)]) if names else None

    def _nodes(self) -> list[str]:
        return [name.split("/")[2] for name in self.plain if name.startswith("Node/")]

    def _change_pod(self) -> None:
        chance, one = self.chance, self._some("Pod")
        if one is None:
            return
        match chance.randrange(7):
            case 0:
                one["spec"]["nodeName"] = chance.choice([*self._nodes(), "gone"])
                one["status"] = {"phase": "Running", "startTime": stamp(chance.randint(1, 500))}
            case 1:
                one["metadata"]["deletionTimestamp"] = stamp(chance.choice((-30, 500)))
            case 2:
                one["status"] = {"phase": chance.choice(("Succeeded", "Failed"))}
            case 3:
                one["spec"].pop("nodeName", None)
                refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                one["status"] = {"phase": "Pending", "conditions": [refused | {"lastTransitionTime": stamp(40)}]}
            case 4:
                one["metadata"]["labels"] = {"app": "web", "edl.dev/job": "e1"}
                one["spec"]["affinity"] = chance.choice((_NEAR, {}))
            case 5:
                owners = [self.plain[name] for name in self.plain if name.startswith(("Elastic", "Training"))]
                if owners:
                    one["metadata"]["ownerReferences"] = pods_of(chance.choice(owners), [""])[0]["metadata"][
                        "ownerReferences"
                    ]
            case _:
                one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "700m", "example.com/nic": "1"}}
        self._put(one)

    def _change_job(self) -> None:
        chance, one = self.chance, self._some("ElasticJob", "TrainingJob")
        if one is None:
            return
        scale = "scale_status" if one["kind"] == "TrainingJob" else "scale"
        match chance.randrange(7):
            case 0:
                one["status"] = {scale: {"target": chance.randint(0, 5)}}
            case 1:
                one["metadata"].setdefault("annotations", {})["edl.dev/pause"] = chance.choice(("true", "false"))
            case 2 if one["kind"] == "ElasticJob":
                one["spec"]["minReplicas"] = chance.choice((1, 2, 50))  # 50: it does not validate
            case 4:
                asked = f"{chance.randint(1, 4)}@{stamp(chance.randint(0, 60))}"
                one["metadata"].setdefault("annotations", {})["edl.dev/scale-request"] = asked
            case 5 if one["kind"] == "ElasticJob":
                one["spec"]["replicaSpecs"]["Worker"]["replicas"] = chance.randint(1, 4)
            case 3:
                one["metadata"]["uid"] = f"uid-again-{chance.randint(0, 3)}"
            case _:
                one["metadata"].setdefault("annotations", {})["edl.dev/sizes"] = chance.choice(("1,2,4", "2"))
        self._put(one)

    def _change_node(self) -> None:
        chance, one = self.chance, self._some("Node")
        if one is None:
            return
        match chance.randrange(4):
            case 0:
                one["spec"]["unschedulable"] = not one["spec"].get("unschedulable")
            case 1:
                one["metadata"]["labels"]["zone"] = chance.choice("abc")
            case 2:
                one["status"]["allocatable"] = {"cpu": str(chance.randint(1, 20)), "memory": "32Gi", "pods": "20"}
            case _:
                one["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
        self._put(one)

    def _come(self) -> None:
        chance = self.chance
        self.number += 1
        name = f"new-{self.number}"
        match chance.randrange(5):
            case 0:
                self._put(node(name, chance.choice((4, 8)), "16Gi", chance.choice((0, 4)), labels={"zone": "a"}))
            case 1:
                self._put(pod(name, chance.choice(["", *self._nodes()]), 1, refused=20))
            case 2:
                more: Data = {"spec": {"affinity": _NEAR}, "labels": {"app": "web"}}
                self._put(pod(name, chance.choice(["", *self._nodes()]), 1, **more))
            case _:
                make = chance.choice((elastic_job, training_job))
                job = make(name, 1, chance.randint(1, 5), cpu=chance.choice((1, "500m")), gpu=chance.choice((0, 1)))
                if chance.random() < 0.2:
                    job["metadata"].pop("uid", None)
                self._put(job)
                for one in pods_of(job, [on for on in self._nodes() if chance.random() < 0.5]):
                    self._put(one)

    def _go(self) -> None:
        if self.plain:
            name = self.chance.choice(list(self.plain))
            del self.plain[name], self.typed[name]

    def _change_child(self) -> None:
        job = self._some("TrainingJob")
        if job is not None:
            self._put(child(job, self.chance.randint(0, 4)))

    def _change_quota(self) -> None:
        chance = self.chance
        used = {"pods": chance.randint(0, 9)} if chance.random() < 0.5 else None
        self._put(quota("default", used, pods=chance.choice((6, 12)), requests__cpu=chance.choice((8, 30))))

    def _change_namespace(self) -> None:
        cap = {"edl.dev/max-priority": self.chance.choice(("Offline", "Production"))}
        self._put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "annotations": cap}})

    def _measure(self) -> None:
        uids = [one["metadata"].get("uid", "") for one in self.plain.values() if one["kind"] == "ElasticJob"]
        if uids:
            points = tuple(
                MeasuredPoint(size, 1, 32, 100.0 * size**0.8, 60.0) for size in range(1, self.chance.randint(2, 4))
            )
            measured = Measurements(points, done=10, total=self.chance.choice((None, 5000)), per_step=3.0)
            self.number += 1
            self.measured[self.chance.choice(uids)] = self.number, measured
        if self.chance.random() < 0.2:
            self.measured.clear()

    def _reorder(self) -> None:
        names = list(self.plain)
        self.chance.shuffle(names)
        self.typed = {name: self.typed[name] for name in names}

    def _see_again(self) -> None:
        """The same, read anew."""
        for name in self.chance.sample(list(self.plain), len(self.plain) // 3):
            self._put(self.plain[name])

    def _list_twice(self) -> None:
        """A pod is listed twice, perhaps in two versions soon: the last one counts."""
        pods = [one for name, one in self.typed.items() if name.startswith("Pod/")]
        self.twice = self.chance.choices(pods, k=self.chance.randint(0, 2)) if pods else []

    def _know_all(self) -> None:
        self.complete = not self.complete
