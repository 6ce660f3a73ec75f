"""The life of one trainer process: a master with its queue and parameters, and beside it the planning of resources.

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

from ..environment import Environment, SettingError
from ..master.run import Master
from ..service import ServiceClient, ServiceDownError, ServiceRefusalError, patiently
from ..signals import when_asked_to_go
from .advisor import Advisor
from .names import RenamedService
from .planner import Planner
from .training import BoardTraining

log = logging.getLogger(__name__)

LEFT = 143
FAREWELL = 120.0  # seconds that workers have for what they do after the last shard
SHORTEST = 1.0  # between two looks, however much happens
WAIT = 20.0


def run(env: Environment) -> int:
    """Returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    over = threading.Event()
    asked = threading.Event()

    def ask() -> None:
        asked.set()
        over.set()

    when_asked_to_go(ask)
    trainer = TrainerProcess(env, over)
    try:
        outcome = trainer.work()
    finally:
        trainer.close()
    if asked.is_set():
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
        self._service = ServiceClient(env.service_url, env.namespace, env.job, env.token, ca=env.service_ca)
        renamed = RenamedService(self._service)
        self._master = Master(env, renamed, on_fenced=self._fenced)
        assert renamed.slot is not None
        self._training = BoardTraining(self._master.board, lambda: self._planner.pods)
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
        self._news = threading.Event()

    def _find_brain(self) -> BrainClient | None:
        """The one that the environment names, else the installation's."""
        env = self._env
        if env.brain_url:
            return BrainClient(env.brain_url, env.brain_token, ca=env.brain_ca)
        try:
            found = self._service.brain()
            return BrainClient(found["url"], found["token"], ca=found.get("ca", "")) if found else None
        except (ServiceDownError, ServiceRefusalError, KeyError, ValueError) as error:
            log.info("job service: %s", error)
            return None

    def work(self) -> Literal["succeeded", "failed", ""]:
        try:
            patiently(self._planner.begin, "the first plan", stop=self._over.is_set)
            threading.Thread(target=self._follow, name="pods", daemon=True).start()
            return self._loop()
        except ServiceDownError:
            return ""  # asked to go while the service was away
        except ServiceRefusalError as error:
            self._fenced(str(error))
            return ""

    def close(self) -> None:
        self._over.set()
        self._master.close()
        self._service.close()

    def _loop(self) -> Literal["succeeded", "failed", ""]:
        period, last = self._env.plan_seconds, time.monotonic()
        while not self._over.is_set():
            if outcome := self._outcome():
                self._planner.conclude(outcome)
                self._bid_farewell()
                return outcome
            happened = self._planner.tick()
            since = time.monotonic() - last
            if since >= period or (happened and since >= min(SHORTEST, period)):
                self._hear_progress()
                self._planner.look_safely()
                last = time.monotonic()
            self._news.wait(min(0.5, period / 8))
            self._news.clear()
        return ""

    def _outcome(self) -> Literal["succeeded", "failed", ""]:
        board, pods = self._master.board, self._planner.pods
        with board.changed:
            if board.queue.failed:
                self.failure = board.queue.failed
                return "failed"
            if board.ended:
                return "succeeded"
            alone = not board.queue.opened
        return "succeeded" if alone and pods.finished and not pods.alive else ""

    def _bid_farewell(self) -> None:
        """Workers that wait for the last task hear that there is none, and may evaluate; who is gone is not awaited."""
        until = time.monotonic() + FAREWELL
        while self._master.board.trainers and time.monotonic() < until and not self._over.wait(0.1):
            pass

    def _follow(self) -> None:
        """Keeps the planner's view of the pods up to date; usage is read at each look."""
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
                revision = str(found.get("revision", ""))
                self._planner.see(found.get("pods"))
                self._news.set()

    def _hear_progress(self) -> None:
        if self._master.board.queue.opened:
            return
        try:
            self._training.reported((self._service.job() or {}).get("progress"))
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("job service: %s", error)

    def _fenced(self, reason: str) -> None:
        log.error("this trainer ends: %s", reason)
        self._over.set()
