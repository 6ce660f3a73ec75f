"""A trainer's connection to the present master.

Calls are retried on new connections until a master answers: every call is idempotent. A master that is older than one
this trainer has spoken to is not used.
"""

import logging
import threading
from typing import Any, TypeVar

from edl.runtime.environment import Environment, SettingError
from edl.runtime.rpc import Client, RefusalError
from edl.runtime.service_client import Service, ServiceDownError, ServiceRefusalError
from edl.runtime.tasks.messages import FAILED, Hello, Welcome

log = logging.getLogger(__name__)

FIRST, LONGEST = 0.05, 0.5

R = TypeVar("R")


class ClosedError(ConnectionError):
    """The trainer is closing its connections."""


class JobFailedError(Exception):
    """The job cannot go on; the message says why."""


class MasterLocator:
    """Finds the master: by its name in the environment, or by its slot in the job service."""

    def __init__(self, env: Environment, service: Service | None) -> None:
        self._env, self._service = env, service
        self._lock = threading.Lock()
        self._epoch = 0
        # In an EasyDL job, whose trainers are called workers, the trainer that plans is the master.
        self._master_role = "trainer" if env.role in ("worker", "evaluator") else "master"

    def connect(self, hello: Hello) -> tuple[Client, Welcome]:
        failure: Exception = ConnectionError("MASTER is not set and the job service knows no master")
        for find in (self._named, self._claimed):
            address = find()
            if not address:
                continue
            try:
                client = Client(address, self._env.token)
                return self._greet(client, hello)
            except OSError as error:
                failure = error
        raise failure

    def _greet(self, client: Client, hello: Hello) -> tuple[Client, Welcome]:
        try:
            welcome = client.call(hello, Welcome)
            with self._lock:
                if welcome.epoch < self._epoch:
                    raise ConnectionError(f"the master at {client.address} has been replaced")
                self._epoch = welcome.epoch
        except BaseException:
            client.close()
            raise
        return client, welcome

    def _named(self) -> str:
        return self._env.master

    def _claimed(self) -> str:
        if self._service is None:
            return ""
        try:
            job = self._service.job()
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("job service: %s", error)
            return ""
        if job is None or self._master_role not in job.roles:
            raise SettingError("this job has no master, which gives out tasks; give its spec a `master` role")
        slot = job.slot(self._master_role, 0)
        return slot.address if slot else ""


class MasterConnection:
    """One connection at a time. For one thread only, but `close` may come from any."""

    def __init__(self, locator: MasterLocator, hello: Hello) -> None:
        self._locator, self._hello = locator, hello
        self._client: Client | None = None
        self._closed = threading.Event()
        self.term = 16.0

    def call(self, message: Any, answer: type[R]) -> R:
        delay, tries = FIRST, 0
        while True:
            try:
                return self._connected().call(message, answer)
            except RefusalError as refusal:
                if refusal.code == FAILED:
                    raise JobFailedError(refusal.message) from None
                raise
            except OSError as error:
                if self._closed.is_set():
                    raise ClosedError("the trainer is ending") from error
                tries += 1
                if tries & (tries - 1) == 0:  # at powers of two
                    log.warning("the master does not answer (%s), trying again", error)
            self._drop()
            self._closed.wait(delay)
            delay = min(2 * delay, LONGEST)

    def close(self) -> None:
        self._closed.set()
        self._drop()

    def _connected(self) -> Client:
        if self._closed.is_set():
            raise ClosedError("the trainer is ending")
        if self._client is None:
            self._client, welcome = self._locator.connect(self._hello)
            self.term = welcome.term
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
