"""An EasyDL job and its plans in the cluster of `world`."""

import copy
from typing import Any

from edl.api.kubernetes import timestamp
from edl.jobs.core.grant import Grant
from tests.jobs.world import START, Data, World

ROLES = {"trainer": 1, "ps": 99, "evaluator": 99, "worker": 1}
"""Of a plan that grants all that is asked for beside the workers."""


def template(command: str = "train") -> Data:
    metadata = {"annotations": {"sidecar.istio.io/inject": "false"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "i", "command": [command]}]}}


def easydl(**spec: Any) -> Data:
    roles: Data = {"parameterServer": {"template": template("ps")}, "worker": {"template": template("worker")}}
    metadata = {"name": "j", "namespace": "ns", "uid": "uid-1", "generation": 1}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": metadata | {"creationTimestamp": timestamp.text(START)},
        "spec": roles | spec,
    }


def role(replicas: int, **resource: Any) -> Data:
    return {"replicas": replicas} | ({"resource": resource} if resource else {})


class EasydlWorld(World):
    """`grant` is as large as the plan asks for, unless a story says otherwise."""

    def __init__(self, job: Data | None = None, *, crash_after: int | None = None) -> None:
        super().__init__(job or easydl(), crash_after=crash_after)
        self.grant = Grant(1, "Started", "there is room", roles={"trainer": 1})

    def plan(self, name: str = "r", **spec: Any) -> None:
        """Submits or edits a JobResource."""
        spec = {"selector": {"name": "j"}} | spec
        key = ("JobResource", name)
        if key in self.objects:
            body = copy.deepcopy(self.objects[key])
            body["spec"] = spec
            body["metadata"]["generation"] += 1
            self._store(key, body)
        else:
            metadata = {"name": name, "namespace": "ns"}
            body = {"apiVersion": "elastic.easydl.org/v1alpha1", "kind": "JobResource", "metadata": metadata}
            self.put("JobResource", body | {"spec": spec})

    def give(self, size: int) -> None:
        self.grant = Grant(size, "Started" if size else "Waiting", "there is room" if size else "no room", roles=ROLES)

    def planned(self, size: int, **spec: Any) -> None:
        """A job that runs by this plan."""
        self.live()
        self.plan(**spec)
        self.give(size)
        self.live()

    def run_all(self) -> None:
        """What is deleted and is no pod is gone at once."""
        for key, body in list(self.objects.items()):
            if key[0] == "Service" and body["metadata"].get("deletionTimestamp"):
                del self.objects[key]
                self.version += 1
        super().run_all()

    def reported(self, name: str = "r") -> Data:
        found: Data = self.objects["JobResource", name].get("status", {})
        return found

    def updates(self, name: str = "r") -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.reported(name).get("updates", ())}

    def why(self, slot: str, name: str = "r") -> str:
        return next(str(one.get("reason", "")) for one in self.reported(name)["updates"] if one["name"] == slot)

    def resources(self, pod: str) -> Data:
        limits: Data = self.objects["Pod", pod]["spec"]["containers"][0]["resources"]["limits"]
        return limits

    def leads_to(self, service: str) -> str:
        """The pod that a Service leads to."""
        selector = self.objects["Service", service]["spec"]["selector"]
        found = [
            name
            for kind, name in self.objects
            if kind == "Pod" and selector.items() <= self.objects[kind, name]["metadata"]["labels"].items()
        ]
        assert len(found) == 1, found
        return found[0]

    def environment(self, pod: str) -> dict[str, str]:
        container = self.objects["Pod", pod]["spec"]["containers"][0]
        return {one["name"]: one.get("value", "") for one in container["env"]}
