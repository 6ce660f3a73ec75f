"""Runs one trainer process: a master with its queue and parameters, and beside it the planning of resources.

It ends when all epochs are done (0), when the job cannot go on (1), when another trainer took over (1), or when it is
asked to go (143). Killed at any moment, the next one goes on from what is in the job service.
"""

import logging
import sys
import threading
import time
from typing import Literal

import msgspec

from edl.brain.client import BrainClient
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.protocol.errors import ErrorCode
from edl.protocol.job_facts import PARAMETER_SERVER
from edl.protocol.resources import WORKER
from edl.runtime.easydl_trainer.advisor import Advisor
from edl.runtime.easydl_trainer.planner import Planner
from edl.runtime.easydl_trainer.renamed_service import RenamedService
from edl.runtime.easydl_trainer.training_progress import TrainingProgress
from edl.runtime.environment import Environment, SettingError
from edl.runtime.service_client import ServiceClient, ServiceDownError, ServiceRefusalError, patiently
from edl.runtime.signals import on_termination
from edl.runtime.tasks.run import Master

log = logging.getLogger(__name__)

LEFT = 143
LAST_TASK = 120.0  # seconds that workers have for what they do after the last shard
SHORTEST = 1.0  # between two updates, however much happens
WAIT = 20.0
SILENT_LOOKS = 3  # so many times in a row, a period apart, workers that run have reported nothing
NO_PROGRESS = """the workers report no progress, so the job stays at its first plan. Add to one of them:
    from edl.progress import Progress
    progress = Progress()
    progress.add(samples=batch * workers)  # after every step: what all workers have trained together"""


def run(env: Environment) -> int:
    """Returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    over = threading.Event()
    asked = threading.Event()

    def ask() -> None:
        asked.set()
        over.set()

    on_termination(ask)
    trainer = TrainerProcess(env, over)
    try:
        outcome = trainer.work()
    finally:
        trainer.close()
    if asked.is_set():
        trainer.tell_if_deleted()
        return LEFT
    if outcome == "failed":
        print(f"edl trainer: {trainer.failure}", file=sys.stderr)
    return 0 if outcome == "succeeded" else 1


def _settings(text: str) -> Settings:
    """Thresholds of the local rules; Brain has its own."""
    try:
        return msgspec.json.decode(text, type=Settings) if text else DEFAULTS
    except msgspec.DecodeError as error:
        raise SettingError(f"EDL_PLAN_SETTINGS is {text[:80]!r}, it must be JSON of settings: {error}") from None


class TrainerProcess:
    def __init__(self, env: Environment, over: threading.Event) -> None:
        self._env, self._over, self.failure = env, over, ""
        settings = _settings(env.plan_settings)
        self._service = ServiceClient.of(env)
        renamed = RenamedService(self._service)
        self._master = Master(env, renamed, on_fenced=self._fenced)
        assert renamed.slot is not None
        self._training = TrainingProgress(self._master.shared, lambda: self._planner.pods)
        self._planner = Planner(
            self._service,
            self._training,
            Advisor(self._find_brain, f"{env.namespace}/{env.job}/{env.uid or 'unknown'}", settings),
            renamed.slot,
            job=env.job,
            namespace=env.namespace,
            period=env.plan_seconds,
            samples=settings.samples,
            stop=over.is_set,
        )
        self._changed = threading.Event()
        self._silent_looks = 0

    def _find_brain(self) -> BrainClient | None:
        """The one that the environment names, else the installation's."""
        env = self._env
        if env.brain_url:
            return BrainClient(env.brain_url, env.brain_token, ca=env.brain_ca)
        try:
            found = self._service.brain()
            return BrainClient(found.url, found.token, ca=found.ca) if found else None
        except (ServiceDownError, ServiceRefusalError, ValueError) as error:
            log.info("job service: %s", error)
            return None

    def work(self) -> Literal["succeeded", "failed", ""]:
        try:
            patiently(self._planner.begin, "the first plan", stop=self._over.is_set)
            threading.Thread(target=self._watch_pods, name="pods", daemon=True).start()
            return self._loop()
        except ServiceDownError:
            return ""  # asked to go while the service was away
        except ServiceRefusalError as error:
            self._fenced(str(error))
            return ""

    def tell_if_deleted(self) -> None:
        """Asked to go: if the job is gone, its Brain hears so; if this pod alone is, the next one goes on."""
        service = ServiceClient.of(self._env)
        try:
            service.job()
        except ServiceRefusalError as error:
            if error.code in (ErrorCode.UNAUTHORIZED, ErrorCode.NO_SUCH_JOB):
                self._planner.advisor.end("deleted", self._planner.state)
        except ServiceDownError as error:
            log.info("job service: %s", error)
        finally:
            service.close()

    def close(self) -> None:
        self._over.set()
        self._master.close()
        self._service.close()

    def _loop(self) -> Literal["succeeded", "failed", ""]:
        period, last = self._env.plan_seconds, time.monotonic()
        while not self._over.is_set():
            if outcome := self._outcome():
                self._planner.conclude(outcome)
                self._wait_for_workers()
                return outcome
            happened = self._planner.tick()
            since = time.monotonic() - last
            if since >= period or (happened and since >= min(SHORTEST, period)):
                self._read_progress()
                self._planner.update_safely()
                last = time.monotonic()
            self._changed.wait(min(0.5, period / 8))
            self._changed.clear()
        return ""

    def _outcome(self) -> Literal["succeeded", "failed", ""]:
        shared, pods = self._master.shared, self._planner.pods
        with shared.changed:
            if shared.queue.failed:
                self.failure = shared.queue.failed
                return "failed"
            if shared.ended:
                return "succeeded"
            queue_unused = not shared.queue.opened
        return "succeeded" if queue_unused and (self._chief_ended() or (pods.finished and not pods.alive)) else ""

    def _chief_ended(self) -> bool:
        """With parameter servers the first worker is TensorFlow's chief: the others serve it for ever."""
        strategy = self._planner.state.features.strategy
        return strategy == PARAMETER_SERVER and self._planner.pods.chief_finished

    def _wait_for_workers(self) -> None:
        """Workers that wait for the last task hear that there is none, and may evaluate; who is gone is not awaited."""
        until = time.monotonic() + LAST_TASK
        while self._master.shared.trainers and time.monotonic() < until and not self._over.wait(0.1):
            pass

    def _watch_pods(self) -> None:
        """Keeps the planner's view of the pods up to date; usage is read at each update."""
        revision = ""
        while not self._over.is_set():
            try:
                found = self._service.pods(revision, wait=min(WAIT, self._env.plan_seconds))
                found = found or self._service.pods()  # nothing changed but what they use
            except (ServiceDownError, ServiceRefusalError) as error:
                log.info("job service: %s", error)
                self._over.wait(1.0)
                continue
            if found is not None:
                revision = found.revision
                self._planner.observe_pods(found.pods)
                self._changed.set()

    def _read_progress(self) -> None:
        if self._master.shared.queue.opened:
            return
        try:
            job = self._service.job()
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("job service: %s", error)
            return
        progress = job.progress or None if job else None
        self._training.reported(progress)
        self._hint(reported=progress is not None and bool(progress.throughput))

    def _hint(self, *, reported: bool) -> None:
        """Workers that neither take tasks nor report leave the job at its first plan for ever: says so, once."""
        trains = self._planner.pods.running.get(WORKER, 0) > 0
        self._silent_looks = self._silent_looks + 1 if trains and not reported else 0
        if self._silent_looks == SILENT_LOOKS:
            log.warning(NO_PROGRESS)

    def _fenced(self, reason: str) -> None:
        log.error("this trainer ends: %s", reason)
        self._over.set()
