"""The scenario of the demonstration, in order. Each scene waits for its effect, then pauses so that it can be seen."""

import asyncio
from pathlib import Path

import msgspec

from edl.demo.cluster import NAMESPACE, DemoCluster, Pod, ScenarioError
from edl.demo.recording import Recording
from edl.demo.task_counts import TaskCounts, count_tasks
from edl.demo.workloads import CLICKS, LEDGER, REGRESSION, SERVICE, SERVICE_CORES, SERVICE_PODS, Pace, jobs, service


class Outcome(msgspec.Struct, frozen=True):
    """`service_seconds`: from the service's creation until all its pods ran. `recovered`: from a kill until the same
    role worked again, by role. `largest` and `squeezed` are sizes: the most, and while the service had its room."""

    recording: Recording
    task_counts: dict[str, TaskCounts]
    first_losses: dict[str, float]
    last_losses: dict[str, float]
    largest: dict[str, int]
    squeezed: dict[str, int]
    service_seconds: float
    recovered: dict[str, float]

    @property
    def good(self) -> bool:
        fell = all(self.last_losses[job] < first for job, first in self.first_losses.items())
        return fell and all(one.exactly_once for one in self.task_counts.values())


async def run_scenario(demo: DemoCluster, pace: Pace, scripts: Path, data: Path) -> Outcome:
    """`data`: the directory below which jobs keep theirs."""
    service_seconds, squeezed, recovered = await _scenes(demo, pace, scripts)
    names, moments = (REGRESSION, CLICKS), demo.recording.moments
    passes = {REGRESSION: pace.regression_passes, CLICKS: pace.clicks_passes}
    losses = {name: [loss for _, loss in demo.recording.losses(name)] for name in names}
    return Outcome(
        recording=demo.recording,
        task_counts={
            name: count_tasks(
                data / NAMESPACE / name / LEDGER, chunks=pace.chunks, passes=passes[name], killed=demo.killed
            )
            for name in names
        },
        first_losses={name: losses[name][0] for name in names},
        last_losses={name: losses[name][-1] for name in names},
        largest={name: max(moment.sizes.get(name, 0) for moment in moments) for name in names},
        squeezed=squeezed,
        service_seconds=service_seconds,
        recovered=recovered,
    )


async def _scenes(demo: DemoCluster, pace: Pace, scripts: Path) -> tuple[float, dict[str, int], dict[str, float]]:
    regression, clicks = jobs(pace, scripts)
    most = regression["spec"]["trainer"]["max-instance"]
    await demo.submit(regression, f"{REGRESSION} is submitted: 2 to {most} trainers, and nobody else is here")
    await demo.until(lambda: demo.size(REGRESSION) >= most - 2 and _trains(demo, REGRESSION), f"{REGRESSION} has grown")
    await asyncio.sleep(pace.scene)

    # Before anybody else is there: later the scheduler may take the place of the dead one for another job.
    recovered = {"trainer": await _kill_trainer(demo)}
    await asyncio.sleep(pace.scene)

    await demo.submit(clicks, f"{CLICKS} is submitted: 2 to 8 trainers, but the cluster is full")
    await demo.until(lambda: demo.size(CLICKS) >= 2 and _trains(demo, CLICKS), f"{CLICKS} has its minimum")
    await asyncio.sleep(pace.scene)

    await demo.deploy(service(), f"{SERVICE}, an online service, needs {SERVICE_PODS} x {SERVICE_CORES} cores now")
    seconds = await demo.until(lambda: demo.size(SERVICE) == SERVICE_PODS, f"{SERVICE} runs")
    squeezed = {name: demo.size(name) for name in (REGRESSION, CLICKS)}
    await asyncio.sleep(pace.scene)

    recovered["master"] = await _kill_master(demo)
    await asyncio.sleep(pace.scene)

    await demo.retire(SERVICE, f"{SERVICE} is no longer needed")
    await demo.until(lambda: all(demo.snapshot(name).job.finished for name in (REGRESSION, CLICKS)), "both jobs end")
    for name in (REGRESSION, CLICKS):
        job = demo.snapshot(name).job
        if job.phase != "succeeded":
            raise ScenarioError(f"{name} {job.phase}: {job.reason}")
    return seconds, squeezed, recovered


def _trains(demo: DemoCluster, job: str) -> bool:
    progress = demo.snapshot(job).progress
    return bool(progress is not None and progress.done)


async def _kill_trainer(demo: DemoCluster) -> float:
    before = {_uid(pod) for pod in demo.running(REGRESSION, "trainer")}
    demo.kill(demo.one(REGRESSION, "trainer"), f"a trainer of {REGRESSION}")

    def replaced() -> bool:
        return any(_uid(pod) not in before for pod in demo.running(REGRESSION, "trainer"))

    return await demo.until(replaced, "the trainer is replaced")


async def _kill_master(demo: DemoCluster) -> float:
    victim = demo.one(CLICKS, "master")
    life = _uid(victim), _restarts(victim)
    demo.kill(victim, f"the master of {CLICKS}, which keeps the queue of its tasks")

    def restarted() -> bool:
        return any((_uid(pod), _restarts(pod)) != life for pod in demo.running(CLICKS, "master"))

    seconds = await demo.until(restarted, "the master is started again")
    done = _done(demo)  # all that its predecessor reported; more can only come from itself
    seconds += await demo.until(
        lambda: _done(demo) > done or demo.snapshot(CLICKS).job.finished, "the new master hands out tasks"
    )
    return seconds


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _restarts(pod: Pod) -> int:
    return sum(status.get("restartCount", 0) for status in (pod.get("status") or {}).get("containerStatuses") or ())


def _done(demo: DemoCluster) -> int:
    progress = demo.snapshot(CLICKS).progress
    return progress.done or 0 if progress is not None else 0
