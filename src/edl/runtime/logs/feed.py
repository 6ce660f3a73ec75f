"""Sends what training processes write to the Brain, which keeps it when the pod is gone. Training never waits for it.

The job service says where the Brain is, with a token that speaks for this job alone, and whether it wants logs. What
the Brain does not take in time is given up, the oldest first. Needs the standard library alone.
"""

import json
import logging
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from edl.runtime.environment import Environment
from edl.runtime.logs.backlog import Backlog
from edl.runtime.tls import tls_context
from edl.runtime.torch.service_call import Endpoint

log = logging.getLogger(__name__)

EVERY, LONGEST_PAUSE = 5.0, 60.0  # seconds between two posts; while there is no answer
TIMEOUT = 5.0
CHUNK = 256 << 10
NO_BRAIN = "no-brain"  # the code by which the job service says so
LATER = (401, 408, 425, 429, 500, 502, 503, 504)


class NotNowError(Exception):
    """No answer, or one that says to come back later."""


class UnwantedError(Exception):
    """Nobody wants the logs, and nobody will."""


class LogFeed:
    """`leads`: whether this pod has rank 0 now. `every`: seconds between two posts."""

    def __init__(self, env: Environment, leads: Callable[[], bool], *, every: float = EVERY) -> None:
        self._env, self._leads, self._every = env, leads, every
        self._backlog = Backlog()
        self._access: Endpoint | None = None
        self._number, self._chunk = 0, b""  # what is on its way
        self._unwanted = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edl-logs", daemon=True)

    @classmethod
    def start(cls, env: Environment, leads: Callable[[], bool], *, every: float = EVERY) -> "LogFeed | None":
        """None outside of a pod of ours."""
        if not (env.service_url and env.token and env.namespace and env.job and env.uid and env.pod):
            return None
        feed = cls(env, leads, every=every)
        feed._thread.start()
        return feed

    @property
    def wanted(self) -> bool:
        """True until somebody says otherwise: what was written by then should not be missing."""
        return not self._unwanted

    def add(self, stream: int, block: bytes) -> None:
        if not self._unwanted:
            self._backlog.add(stream, block)

    def close(self, wait: float) -> None:
        """Sends what is left if that can be done in time."""
        self._closing.set()
        self._thread.join(wait)

    def _run(self) -> None:
        pause = 0.0
        try:
            while True:
                closing = self._closing.wait(pause * random.uniform(0.8, 1.0))
                try:
                    more = self._step()
                    pause = self._every
                except NotNowError as error:
                    log.debug("logs of this pod are not kept for now: %s", error)  # no business of who reads its log
                    self._access = None  # the Brain may be elsewhere by now, and a token does not last for ever
                    more, pause = False, min(max(pause, self._every) * 2, LONGEST_PAUSE)
                if closing and not more:
                    return
        except UnwantedError as error:
            log.debug("logs of this pod are not kept: %s", error)
            self._unwanted = True

    def _step(self) -> bool:
        """Whether there is more to send."""
        self._access = self._access or self._find()
        if not self._chunk:
            self._chunk, self._number = self._backlog.take(CHUNK), max(self._number + 1, time.time_ns() // 1000)
        if self._chunk:
            self._post(self._access)
            self._chunk = b""
        return bool(self._backlog)

    def _find(self) -> Endpoint:
        env = self._env
        url = f"{env.service_url.rstrip('/')}/v1/jobs/{_quoted(env.namespace, env.job)}/brain"
        status, body = _call("GET", Endpoint(url, env.token, _tls(url, env.service_ca)))
        if body.get("code") == NO_BRAIN or (status == 200 and not body.get("logs")):
            raise UnwantedError("there is no Brain that wants them")
        if status != 200:  # a leader that has just begun may not know the job yet
            raise NotNowError(f"the job service answers {status}")
        url = f"{str(body['url']).rstrip('/')}/v1/jobs/{_quoted(env.namespace, env.job, env.uid)}/logs"
        return Endpoint(url, str(body["token"]), _tls(url, str(body.get("ca") or "")))

    def _post(self, access: Endpoint) -> None:
        """A chunk that is posted again has the number it had."""
        lines = self._chunk.decode(errors="replace")
        chunk = {"pod": self._env.pod, "number": self._number, "lines": lines, "leads": self._leads()}
        status, _ = _call("POST", access, json.dumps(chunk).encode())
        if status != 200:
            raise (NotNowError if status in LATER else UnwantedError)(f"the Brain answers {status}")


def _call(method: str, endpoint: Endpoint, body: bytes | None = None) -> tuple[int, dict[str, Any]]:
    try:
        answer = endpoint.call(method, body, timeout=TIMEOUT)
        said = json.loads(answer.body) if answer.content_type.startswith("application/json") else {}
    except (OSError, ValueError) as error:
        raise NotNowError(f"{type(error).__name__}: {error}") from error
    return answer.status, said if isinstance(said, dict) else {}


def _tls(url: str, ca: str) -> ssl.SSLContext | None:
    try:
        return tls_context(ca) if url.startswith("https:") else None
    except (OSError, ValueError) as error:
        raise UnwantedError(f"no certificate to know the other end by: {error}") from error


def _quoted(*names: str) -> str:
    return "/".join(urllib.parse.quote(name, safe="") for name in names)
