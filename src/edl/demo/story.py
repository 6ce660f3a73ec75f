"""What happens, in order. Every scene waits for what it is about, then lets it be looked at for a moment."""

import asyncio
from pathlib import Path

import msgspec

from .cast import CLICKS, LEDGER, REGRESSION, SERVICE, SERVICE_CORES, SERVICE_PODS, Pace, jobs, service
from .ledger import Account, account
from .recording import Recording
from .stage import NAMESPACE, Pod, Stage, StoryError


class Outcome(msgspec.Struct, frozen=True):
    """`service_seconds`: from the service's creation until all its pods ran. `recovered`: from a kill until the same
    role worked again, by role. `largest` and `squeezed` are sizes: the most, and while the service had its room."""

    recording: Recording
    accounts: dict[str, Account]
    first_losses: dict[str, float]
    last_losses: dict[str, float]
    largest: dict[str, int]
    squeezed: dict[str, int]
    service_seconds: float
    recovered: dict[str, float]

    @property
    def good(self) -> bool:
        fell = all(self.last_losses[job] < first for job, first in self.first_losses.items())
        return fell and all(one.exactly_once for one in self.accounts.values())


async def play(stage: Stage, pace: Pace, scripts: Path, data: Path) -> Outcome:
    """`data`: the directory below which jobs keep theirs."""
    service_seconds, squeezed, recovered = await _scenes(stage, pace, scripts)
    names, moments = (REGRESSION, CLICKS), stage.recording.moments
    passes = {REGRESSION: pace.regression_passes, CLICKS: pace.clicks_passes}
    losses = {name: [loss for _, loss in stage.recording.losses(name)] for name in names}
    return Outcome(
        recording=stage.recording,
        accounts={
            name: account(
                data / NAMESPACE / name / LEDGER, chunks=pace.chunks, passes=passes[name], killed=stage.killed
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


async def _scenes(stage: Stage, pace: Pace, scripts: Path) -> tuple[float, dict[str, int], dict[str, float]]:
    regression, clicks = jobs(pace, scripts)
    most = regression["spec"]["trainer"]["max-instance"]
    await stage.submit(regression, f"{REGRESSION} is submitted: 2 to {most} trainers, and nobody else is here")
    await stage.until(
        lambda: stage.size(REGRESSION) >= most - 2 and _trains(stage, REGRESSION), f"{REGRESSION} has grown"
    )
    await asyncio.sleep(pace.scene)

    # Before anybody else is there: later the scheduler may take the place of the dead one for another job.
    recovered = {"trainer": await _kill_trainer(stage)}
    await asyncio.sleep(pace.scene)

    await stage.submit(clicks, f"{CLICKS} is submitted: 2 to 8 trainers, but the cluster is full")
    await stage.until(lambda: stage.size(CLICKS) >= 2 and _trains(stage, CLICKS), f"{CLICKS} has its minimum")
    await asyncio.sleep(pace.scene)

    await stage.deploy(service(), f"{SERVICE}, an online service, needs {SERVICE_PODS} x {SERVICE_CORES} cores now")
    seconds = await stage.until(lambda: stage.size(SERVICE) == SERVICE_PODS, f"{SERVICE} runs")
    squeezed = {name: stage.size(name) for name in (REGRESSION, CLICKS)}
    await asyncio.sleep(pace.scene)

    recovered["master"] = await _kill_master(stage)
    await asyncio.sleep(pace.scene)

    await stage.retire(SERVICE, f"{SERVICE} is no longer needed")
    await stage.until(lambda: all(stage.look(name).job.finished for name in (REGRESSION, CLICKS)), "both jobs end")
    for name in (REGRESSION, CLICKS):
        job = stage.look(name).job
        if job.phase != "succeeded":
            raise StoryError(f"{name} {job.phase}: {job.reason}")
    return seconds, squeezed, recovered


def _trains(stage: Stage, job: str) -> bool:
    progress = stage.look(job).progress
    return bool(progress is not None and progress.done)


async def _kill_trainer(stage: Stage) -> float:
    before = {_uid(pod) for pod in stage.running(REGRESSION, "trainer")}
    stage.kill(stage.one(REGRESSION, "trainer"), f"a trainer of {REGRESSION}")

    def replaced() -> bool:
        return any(_uid(pod) not in before for pod in stage.running(REGRESSION, "trainer"))

    return await stage.until(replaced, "the trainer is replaced")


async def _kill_master(stage: Stage) -> float:
    victim = stage.one(CLICKS, "master")
    life = _uid(victim), _restarts(victim)
    stage.kill(victim, f"the master of {CLICKS}, which keeps the queue of its tasks")

    def anew() -> bool:
        return any((_uid(pod), _restarts(pod)) != life for pod in stage.running(CLICKS, "master"))

    seconds = await stage.until(anew, "the master is started again")
    done = _done(stage)  # all that its predecessor has told; more can only come from itself
    seconds += await stage.until(
        lambda: _done(stage) > done or stage.look(CLICKS).job.finished, "the new master hands out tasks"
    )
    return seconds


def _uid(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def _restarts(pod: Pod) -> int:
    return sum(status.get("restartCount", 0) for status in (pod.get("status") or {}).get("containerStatuses") or ())


def _done(stage: Stage) -> int:
    progress = stage.look(CLICKS).progress
    return progress.done or 0 if progress is not None else 0
