"""The cluster that the demonstration plays on, and the eyes that watch it: looks four times a second, writes down what
it sees, and shows it. Kills real processes, by the number that the node knows them under.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edl.api.kinds import TRAINING_JOB
from edl.cli.follow import Watched
from edl.cli.jobs import resource_of, summarize
from edl.cli.live import Look, decisions
from edl.cli.pods import pods_resource, role_of
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.node.supervisor import processes
from edl.kube.resource import Resource

from .cast import NODES, Pace
from .recording import Act, Kind, Recording, moment

EVERY = 0.25
PATIENCE = 60.0
NAMESPACE = "default"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")

Pod = Mapping[str, Any]


class StoryError(Exception):
    """Something that the story waits for did not happen."""


class View(Protocol):
    def tell(self, act: Act) -> None: ...

    def show(self, recording: Recording, looks: list[Look]) -> None: ...


class Stage:
    def __init__(self, cluster: EmbeddedCluster, view: View, *, cores: int, patience: float = PATIENCE) -> None:
        self.recording = Recording(nodes=NODES, node_cores=cores)
        self.pods: Sequence[Pod] = ()
        self.killed: set[int] = set()
        self._cluster, self._view, self._patience = cluster, view, patience
        self._watched: dict[str, Watched] = {}
        self._begun = time.monotonic()
        self._seen = asyncio.Condition()
        self._blind: Exception | None = None

    @property
    def now(self) -> float:
        return time.monotonic() - self._begun

    def look(self, job: str) -> Look:
        return self._watched[job].last

    def size(self, holder: str) -> int:
        return self.recording.moments[-1].sizes.get(holder, 0)

    # What is done

    async def submit(self, manifest: dict[str, Any], words: str) -> None:
        made = await self._cluster.client.create(resource_of(TRAINING_JOB), manifest, namespace=NAMESPACE)
        name = manifest["metadata"]["name"]
        self._watched[name] = Watched(self._cluster.client, summarize(TRAINING_JOB, made))
        self.recording.holders.append(name)
        self.note("user", words, name)

    async def deploy(self, manifest: dict[str, Any], words: str) -> None:
        await self._cluster.client.create(DEPLOYMENTS, manifest, namespace=NAMESPACE)
        self.recording.holders.append(manifest["metadata"]["name"])
        self.note("user", words)

    async def retire(self, name: str, words: str) -> None:
        await self._cluster.client.delete(DEPLOYMENTS, name, namespace=NAMESPACE)
        self.note("user", words)

    def kill(self, pod: Pod, words: str) -> int:
        """kill -9 of the first process of a pod; its number."""
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        worker = next(one for one in self._cluster.nodes if one.name == node).worker(NAMESPACE, name)
        run = worker.running(role_of(pod)) if worker is not None else None
        process = processes.table().get(run.running.pid) if run is not None else None
        if process is None or not processes.kill(process):
            raise StoryError(f"{name} has ended by itself before it could be killed")
        self.killed.add(process.pid)
        self.note("fault", f"kill -9 {process.pid}: {words} ({name})")
        return process.pid

    def note(self, kind: Kind, words: str, who: str = "") -> None:
        self._view.tell(self.recording.note(self.now, kind, words, who))

    # What is seen

    def running(self, job: str, role: str) -> list[Pod]:
        return [pod for pod in self.pods if role_of(pod) == role and _job_of(pod) == job and _runs(pod)]

    def one(self, job: str, role: str) -> Pod:
        found = self.running(job, role)
        if not found:
            raise StoryError(f"{job} has no {role} that runs: {self.look(job).job.phase}")
        return found[-1]

    async def until(self, condition: Callable[[], Any], what: str) -> float:
        """Seconds that it took."""
        since = time.monotonic()
        try:
            async with asyncio.timeout(self._patience), self._seen:
                await self._seen.wait_for(lambda: self._blind is not None or bool(condition()))
        except TimeoutError:
            raise StoryError(f"waited {self._patience:.0f} s in vain until {what}") from None
        if self._blind is not None:
            raise self._blind
        return time.monotonic() - since

    async def watch(self) -> None:
        """For ever: looks, writes down, shows. Whoever waits for something learns that it can no longer be seen."""
        try:
            while True:
                await self._see()
                await asyncio.sleep(EVERY)
        except Exception as error:
            self._blind = error
            async with self._seen:
                self._seen.notify_all()

    async def _see(self) -> None:
        self.pods = (await self._cluster.client.list(pods_resource(), namespace=NAMESPACE)).items
        looks = []
        for name, watched in list(self._watched.items()):  # a job may be submitted while we look
            before = watched.last.job
            look = await watched.look()
            looks.append(look)
            for words in decisions(before, look.job):
                self.note("decision", words, name)
        losses = {
            look.job.name: look.progress.loss for look in looks if look.progress and look.progress.loss is not None
        }
        self.recording.moments.append(moment(self.now, self.pods, losses))
        self._view.show(self.recording, looks)
        async with self._seen:
            self._seen.notify_all()


def _job_of(pod: Pod) -> str:
    return str((pod["metadata"].get("labels") or {}).get("edl.dev/job", ""))


def _runs(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


@contextlib.asynccontextmanager
async def stage(home: Path, view: View, pace: Pace, *, patience: float = PATIENCE) -> AsyncIterator[Stage]:
    """A cluster of its own in `home`; nothing of it is left running afterwards."""
    cpu = f"{1000 * pace.cores + 500}m"
    async with embedded_cluster(home=home, nodes=NODES, cpu=cpu, memory="4Gi", working_dir=str(home)) as cluster:
        made = Stage(cluster, view, cores=pace.cores, patience=patience)
        watching = asyncio.create_task(made.watch())
        try:
            yield made
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
