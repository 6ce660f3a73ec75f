"""A page of cluster for PyTorch ElasticJobs: workers of one's choosing, and the words to speak of them."""

from typing import Any

from edl.api.kubernetes import timestamp
from edl.jobs.core.grant import Grant
from edl.jobs.core.pods.environment import ServiceAccess
from edl.jobs.core.pods.pod_builder import PodSettings
from tests.jobs.world import START, Data, World

NAME = "j"


def elastic(least: int = 2, most: int = 5, replicas: int = 3, *, policy: str | None = None, **spec: Any) -> Data:
    notes = spec.pop("annotations", {})
    container = {"name": "torchelasticworker", "image": "x", "args": ["main.py"]} | spec.pop("container", {})
    worker: Data = {"replicas": replicas, "template": {"spec": {"containers": [container, *spec.pop("others", ())]}}}
    if policy is not None:
        worker["restartPolicy"] = policy
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {
            "name": NAME,
            "namespace": "ns",
            "uid": "uid-1",
            "generation": 1,
            "creationTimestamp": timestamp.text(START),
            "annotations": notes,
        },
        "spec": {"minReplicas": least, "maxReplicas": most, "replicaSpecs": {"Worker": worker}} | spec,
    }


class PytorchWorld(World):
    def __init__(self, job: Data | None = None, *, crash_after: int | None = None) -> None:
        super().__init__(job or elastic(), crash_after=crash_after)
        self.settings = PodSettings(access=ServiceAccess("https://service:8443"))

    def give(self, size: int, *, leavers: dict[str, int] | None = None) -> None:
        """The scheduler grants so many workers, and everything comes to rest."""
        self.granted(size, leavers=leavers)
        self.live()

    def granted(self, size: int, *, leavers: dict[str, int] | None = None) -> None:
        code, words = ("Granted", f"room for {size}") if size else ("NoRoom", "waits for cpu")
        self.grant = Grant(size, code, words, leavers={"worker": leavers} if leavers else {})

    @property
    def workers(self) -> list[str]:
        return self.pods("worker")

    @property
    def counts(self) -> Data:
        found: Data = self.status["replicaStatuses"]["Worker"]
        return found

    def selector(self, name: str) -> Data:
        found: Data = self.objects["Service", name]["spec"]["selector"]
        return found

    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.status["conditions"]}
