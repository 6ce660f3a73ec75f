"""The cluster of the demonstration: submits and kills, and observes four times a second what to record and show.

Kills real processes, by the process id that the node knows.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edl.api.labels import LABEL_JOB
from edl.cli.connect.jobs import resource_of, summarize
from edl.cli.connect.pods import pods_resource, role_of
from edl.cli.local.admission import edl_groups, edl_rules
from edl.cli.local.services import operator_with_brain
from edl.cli.local.web import LocalPage, web
from edl.cli.output.follow import WatchedJob
from edl.cli.output.live import JobSnapshot, decisions
from edl.demo.recording import Kind, Recording, TimelineEvent, moment
from edl.demo.workloads import NODES, Pace
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.node.supervisor import processes
from edl.jobs.registry import TRAINING_JOB
from edl.kube.rest.resource import Resource

EVERY = 0.25
TIMEOUT = 60.0
NAMESPACE = "default"
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")

Pod = Mapping[str, Any]


class ScenarioError(Exception):
    """Something that the scenario waits for did not happen."""


class View(Protocol):
    def report(self, event: TimelineEvent) -> None: ...

    def show(self, recording: Recording, snapshots: list[JobSnapshot]) -> None: ...


class DemoCluster:
    """`page` shows the same in a browser; nothing of it runs before somebody looks."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        view: View,
        *,
        cores: int,
        page: LocalPage | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        self.page = page
        self.recording = Recording(nodes=NODES, node_cores=cores)
        self.pods: Sequence[Pod] = ()
        self.killed: set[int] = set()
        self._cluster, self._view, self._timeout = cluster, view, timeout
        self._watched: dict[str, WatchedJob] = {}
        self._begun = time.monotonic()
        self._observed = asyncio.Condition()
        self._watch_error: Exception | None = None

    @property
    def now(self) -> float:
        return time.monotonic() - self._begun

    def snapshot(self, job: str) -> JobSnapshot:
        return self._watched[job].last

    def size(self, holder: str) -> int:
        return self.recording.moments[-1].sizes.get(holder, 0)

    # Actions

    async def submit(self, manifest: dict[str, Any], text: str) -> None:
        made = await self._cluster.client.create(resource_of(TRAINING_JOB), manifest, namespace=NAMESPACE)
        name = manifest["metadata"]["name"]
        self._watched[name] = WatchedJob(self._cluster.client, summarize(TRAINING_JOB, made))
        self.recording.holders.append(name)
        self.note("user", text, name)

    async def deploy(self, manifest: dict[str, Any], text: str) -> None:
        await self._cluster.client.create(DEPLOYMENTS, manifest, namespace=NAMESPACE)
        self.recording.holders.append(manifest["metadata"]["name"])
        self.note("user", text)

    async def retire(self, name: str, text: str) -> None:
        await self._cluster.client.delete(DEPLOYMENTS, name, namespace=NAMESPACE)
        self.note("user", text)

    def kill(self, pod: Pod, text: str) -> int:
        """kill -9 of the first process of a pod; returns its process id."""
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        worker = next(one for one in self._cluster.nodes if one.name == node).worker(NAMESPACE, name)
        run = worker.running(role_of(pod)) if worker is not None else None
        process = processes.table().get(run.running.pid) if run is not None else None
        if process is None or not processes.kill(process):
            raise ScenarioError(f"{name} has ended by itself before it could be killed")
        self.killed.add(process.pid)
        self.note("fault", f"kill -9 {process.pid}: {text} ({name})")
        return process.pid

    def note(self, kind: Kind, text: str, who: str = "") -> None:
        self._view.report(self.recording.note(self.now, kind, text, who))

    # Observations

    def running(self, job: str, role: str) -> list[Pod]:
        return [pod for pod in self.pods if role_of(pod) == role and _job_of(pod) == job and _runs(pod)]

    def one(self, job: str, role: str) -> Pod:
        found = self.running(job, role)
        if not found:
            raise ScenarioError(f"{job} has no {role} that runs: {self.snapshot(job).job.phase}")
        return found[-1]

    async def until(self, condition: Callable[[], Any], what: str) -> float:
        """Waits; returns the seconds that it took."""
        since = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout), self._observed:
                await self._observed.wait_for(lambda: self._watch_error is not None or bool(condition()))
        except TimeoutError:
            raise ScenarioError(f"waited {self._timeout:.0f} s in vain until {what}") from None
        if self._watch_error is not None:
            raise self._watch_error
        return time.monotonic() - since

    async def watch(self) -> None:
        """For ever: observes, records, shows. If that fails, those who wait in `until` get the error."""
        try:
            while True:
                await self._observe()
                await asyncio.sleep(EVERY)
        except Exception as error:
            self._watch_error = error
            async with self._observed:
                self._observed.notify_all()

    async def _observe(self) -> None:
        self.pods = (await self._cluster.client.list(pods_resource(), namespace=NAMESPACE)).items
        snapshots = []
        for name, watched in list(self._watched.items()):  # a job may be submitted meanwhile
            before = watched.last.job
            snapshot = await watched.refresh()
            snapshots.append(snapshot)
            for text in decisions(before, snapshot.job):
                self.note("decision", text, name)
        losses = {
            snapshot.job.name: snapshot.progress.loss
            for snapshot in snapshots
            if snapshot.progress and snapshot.progress.loss is not None
        }
        self.recording.moments.append(moment(self.now, self.pods, losses))
        self._view.show(self.recording, snapshots)
        async with self._observed:
            self._observed.notify_all()


def _job_of(pod: Pod) -> str:
    return str((pod["metadata"].get("labels") or {}).get(LABEL_JOB, ""))


def _runs(pod: Pod) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


@contextlib.asynccontextmanager
async def demo_cluster(
    home: Path, view: View, pace: Pace, *, timeout: float = TIMEOUT, looks: bool = False
) -> AsyncIterator[DemoCluster]:
    """A cluster of its own in `home`; nothing of it is left running afterwards. `looks`: somebody will at its page."""
    cpu = f"{1000 * pace.cores + 750}m"
    async with (
        embedded_cluster(
            home=home,
            nodes=NODES,
            cpu=cpu,
            memory="4Gi",
            working_dir=str(home),
            admission=edl_rules,
            pod_groups=edl_groups,
            services=[operator_with_brain],
        ) as cluster,
        web(cluster, from_the_start=looks) as page,
    ):
        made = DemoCluster(cluster, view, cores=pace.cores, page=page, timeout=timeout)
        watching = asyncio.create_task(made.watch())
        try:
            yield made
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
