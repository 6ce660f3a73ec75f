"""Client of the job service for pods: blocking calls on http.client, safe to use from several threads.

A call that got no answer raises `ServiceDownError`; nothing is retried here except by `put` and `patiently`, which know
that it is safe. Losing the service must never stop training, so callers that can go on without it do.
"""

import http.client
import logging
import random
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from edl.protocol.errors import ErrorCode, JobServiceRefusal
from edl.protocol.job_state import JobView
from edl.protocol.plans import BrainAccess, JobSpec, PlanAnswer, PlanWritten, PostedPlan
from edl.protocol.pods import PodListAnswer, UsageReport
from edl.protocol.progress import ProgressReport
from edl.protocol.slots import FENCE_HEADER, Claim, Claimed, Slot
from edl.runtime.environment import Environment
from edl.runtime.tls import tls_context

log = logging.getLogger(__name__)

TIMEOUT = 15.0
UNREADABLE = "the job service answers what cannot be read"
T = TypeVar("T")


class ServiceDownError(Exception):
    """No answer that can be read, or one that says to come back later. Whether a write took place is unknown."""


class ServiceRefusalError(Exception):
    """A final answer: asking again will not help. Its kinds are told apart by `code`."""

    def __init__(self, status: int, body: JobServiceRefusal) -> None:
        super().__init__(f"{status} {body.code}: {body.error}")
        self.status, self.body, self.code = status, body, body.code


class StaleEpochError(ServiceRefusalError):
    """Another process has taken over our slot: stop at once."""


class VersionError(ServiceRefusalError):
    """Somebody else wrote the value first."""


class OverruledError(ServiceRefusalError):
    """A JobResource that is not ours rules the job: our plan is not wanted."""


_BY_CODE: dict[str, type[ServiceRefusalError]] = {
    ErrorCode.STALE_EPOCH: StaleEpochError,
    ErrorCode.VERSION: VersionError,
    ErrorCode.RULED: OverruledError,
    ErrorCode.NAME_TAKEN: OverruledError,
}
_BY_STATUS = {409: StaleEpochError, 412: VersionError}  # of an answer without a code
_COME_BACK = {429, 500, 502, 503, 504}


class Service(Protocol):
    """The part of the job service that a master and a trainer need."""

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot: ...

    def get(self, key: str) -> tuple[bytes, int] | None: ...

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int: ...

    def job(self, after: str = "", wait: float = 0.0) -> JobView | None: ...

    def progress(self, report: ProgressReport) -> None: ...

    def close(self) -> None: ...


class _Written(msgspec.Struct):
    version: int


class ServiceClient:
    def __init__(
        self, url: str, namespace: str, job: str, token: str, *, ca: str = "", timeout: float = TIMEOUT
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"EDL_SERVICE_URL is {url!r}, it must be https://host:port")
        self._host, self._port = parts.hostname, parts.port
        self._tls = tls_context(ca) if parts.scheme == "https" else None
        self._base = f"{parts.path.rstrip('/')}/v1/jobs/{urllib.parse.quote(namespace)}/{urllib.parse.quote(job)}"
        self._token, self._timeout = token, timeout
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    @classmethod
    def of(cls, env: Environment) -> "ServiceClient":
        """The client of the job that a pod's environment names."""
        return cls(env.service_url, env.namespace, env.job, env.token, ca=env.service_ca)

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
        """Takes a slot; without an index any whose holder is gone (none: ServiceRefusalError `no-free-slot`)."""
        path = f"/slots/{role}" if index is None else f"/slots/{role}/{index}"
        claimed = self._ask("POST", path, Claimed, Claim(holder, address))
        return Slot(role, claimed.index, claimed.epoch)

    def get(self, key: str) -> tuple[bytes, int] | None:
        status, headers, body = self._call("GET", f"/kv/{key}", accept=(200, 404))
        return None if status == 404 else (body, int(headers["etag"].strip('"')))

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool] = lambda: False) -> int:
        """The new version, once it is durable; tries until then, and knows its own write if the answer was lost."""
        unsure = False
        headers = {"If-Match": str(version), FENCE_HEADER: slot.fence}

        def attempt() -> int:
            nonlocal unsure
            try:
                _, _, body = self._call("PUT", f"/kv/{key}", data, headers)
                return _decode(body, _Written).version
            except ServiceDownError:
                unsure = True
                raise
            except VersionError:
                found = self.get(key) if unsure else None
                if found and found[0] == data:
                    return found[1]
                raise

        return patiently(attempt, f"write of {key}", stop=stop)

    def job(self, after: str = "", wait: float = 0.0) -> JobView | None:
        """The job's view; with `after`, None if it is still that revision when `wait` seconds have passed."""
        body = self._changed("/job", after, wait)
        return None if body is None else _decode(body, JobView)

    def progress(self, report: ProgressReport) -> None:
        self._ask("POST", "/progress", dict[str, Any], report)

    def usage(self, pod: str, cpu: float, memory: int) -> None:
        """Reports what a pod uses now, in cores and MiB."""
        self._ask("POST", "/usage", dict[str, Any], UsageReport(pod, cpu, memory))

    def pods(self, after: str = "", wait: float = 0.0) -> PodListAnswer | None:
        """The job's pods; with `after`, None if they are still as in that revision when `wait` seconds have passed."""
        body = self._changed("/pods", after, wait)
        try:
            return None if body is None else PodListAnswer.decode(body)
        except msgspec.DecodeError as error:
            raise ServiceDownError(f"{UNREADABLE}: {error}") from error

    def plan(self) -> PlanAnswer:
        """The plan that rules an EasyDL job, and what was made of it."""
        return self._ask("GET", "/plan", PlanAnswer)

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot, *, urgent: bool = False) -> PlanWritten:
        """Answered when it is durable; the same plan again changes nothing."""
        return self._ask("POST", "/plan", PlanWritten, PostedPlan(spec, reason, urgent), {FENCE_HEADER: slot.fence})

    def brain(self) -> BrainAccess | None:
        """Where the Brain is, with a token; None where there is none."""
        status, _, body = self._call("GET", "/brain", accept=(200, 404))
        return _decode(body, BrainAccess) if status == 200 else None

    def spec(self) -> JobSpec:
        """The job as its user wrote it; empty where the service does not say."""
        status, _, body = self._call("GET", "/spec", accept=(200, 404))
        return _decode(body, JobSpec) if status == 200 else JobSpec()

    def close(self) -> None:
        """Frees what is idle; a call that is under way ends by itself."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        wanted: type[T],
        message: msgspec.Struct | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        body = None if message is None else msgspec.json.encode(message)
        _, _, answer = self._call(method, path, body, headers)
        return _decode(answer, wanted)

    def _changed(self, path: str, after: str, wait: float) -> bytes | None:
        """The body, None if its revision is still `after` when `wait` seconds have passed."""
        query = urllib.parse.urlencode({"after": after, "wait": wait})
        status, _, body = self._call("GET", f"{path}?{query}", accept=(200, 304), wait=wait)
        return None if status == 304 else body

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        accept: tuple[int, ...] = (200,),
        wait: float = 0.0,
    ) -> tuple[int, dict[str, str], bytes]:
        headers = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        connection = self._connection()
        try:
            connection.timeout = self._timeout + wait
            if connection.sock is not None:
                connection.sock.settimeout(self._timeout + wait)
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ServiceDownError(f"{type(error).__name__}: {error}") from error
        if response.status in _COME_BACK:
            connection.close()  # the leader may be another replica by now, behind the same name
        with self._lock:
            self._idle.append(connection)
        if response.status in accept:
            return response.status, {name.lower(): value for name, value in response.getheaders()}, answer
        raise _refusal(response.status, answer)

    def _connection(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port)
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls)


def patiently(call: Callable[[], T], what: str, *, stop: Callable[[], bool] = lambda: False) -> T:
    """Repeats a call that may be repeated until the service answers, or `stop` says that it no longer matters."""
    delay = 0.1
    while True:
        try:
            return call()
        except ServiceDownError as error:
            if stop():
                raise
            log.log(logging.WARNING if delay > 1 else logging.INFO, "%s: no answer yet: %s", what, error)
            time.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, 2.0)


def _decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.DecodeError as error:
        raise ServiceDownError(f"{UNREADABLE}: {error}") from error


def _refusal(status: int, answer: bytes) -> Exception:
    try:
        body = msgspec.json.decode(answer, type=JobServiceRefusal)
    except msgspec.DecodeError:
        body = JobServiceRefusal()
    if status in _COME_BACK:
        return ServiceDownError(f"{status} {body.error}")
    kind = _BY_CODE.get(body.code) if body.code else _BY_STATUS.get(status)
    return (kind or ServiceRefusalError)(status, body)
