"""The pods' side of the job service: plain blocking calls on http.client, safe to use from several threads.

A call that got no answer raises `ServiceDownError`; nothing is tried again here except by `put` and `patiently`,
which know that it is safe. Losing the service must never stop training, so callers that can go on without it do.
"""

import http.client
import json
import logging
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

log = logging.getLogger(__name__)

TIMEOUT = 15.0
T = TypeVar("T")


class ServiceDownError(Exception):
    """No answer, or one that says to come back later. Whether a write took place is unknown."""


class ServiceRefusalError(Exception):
    """A final answer: asking again will not help."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"{status} {body.get('code', '')}: {body.get('error', '')}")
        self.status, self.body, self.code = status, body, str(body.get("code", ""))


class StaleEpochError(ServiceRefusalError):
    """Another process has taken over our slot: stop at once."""


class VersionError(ServiceRefusalError):
    """Somebody else wrote the value first."""


_REFUSALS = {409: StaleEpochError, 412: VersionError}
_COME_BACK = {429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Slot:
    """A slot that this process holds; `fence` goes with every call that only its present holder may make."""

    role: str
    index: int
    epoch: int

    @property
    def fence(self) -> str:
        return f"{self.role}/{self.index}/{self.epoch}"


class Service(Protocol):
    """What a master and a trainer need of the job service."""

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot: ...

    def get(self, key: str) -> tuple[bytes, int] | None: ...

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool]) -> int: ...

    def job(self, after: str = "", wait: float = 0.0) -> dict[str, Any] | None: ...

    def progress(self, report: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


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

    def claim(self, role: str, index: int | None, holder: str, address: str = "") -> Slot:
        """Takes a slot; without an index any whose holder is gone (none: ServiceRefusalError `no-free-slot`)."""
        path = f"/slots/{role}" if index is None else f"/slots/{role}/{index}"
        body = {"holder": holder, "address": address}
        answer = self._json("POST", path, json.dumps(body).encode())
        return Slot(role, answer["index"], answer["epoch"])

    def get(self, key: str) -> tuple[bytes, int] | None:
        status, headers, body = self._call("GET", f"/kv/{key}", accept=(200, 404))
        return None if status == 404 else (body, int(headers["etag"].strip('"')))

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Callable[[], bool] = lambda: False) -> int:
        """The new version, once it is durable; tries until then, and knows its own write if the answer was lost."""
        unsure = False
        headers = {"If-Match": str(version), "EDL-Slot": slot.fence}

        def attempt() -> int:
            nonlocal unsure
            try:
                return int(self._json("PUT", f"/kv/{key}", data, headers)["version"])
            except ServiceDownError:
                unsure = True
                raise
            except VersionError:
                found = self.get(key) if unsure else None
                if found and found[0] == data:
                    return found[1]
                raise

        return patiently(attempt, f"write of {key}", stop=stop)

    def job(self, after: str = "", wait: float = 0.0) -> dict[str, Any] | None:
        """The job's view; with `after`, None if it is still that revision when `wait` seconds have passed."""
        query = urllib.parse.urlencode({"after": after, "wait": wait})
        status, _, body = self._call("GET", f"/job?{query}", accept=(200, 304), wait=wait)
        return None if status == 304 else json.loads(body)

    def progress(self, report: dict[str, Any]) -> None:
        self._json("POST", "/progress", json.dumps(report).encode())

    def usage(self, pod: str, cpu: float, memory: int) -> None:
        """What a pod uses now, in cores and MiB."""
        self._json("POST", "/usage", json.dumps({"pod": pod, "cpu": cpu, "memory": memory}).encode())

    def pods(self, after: str = "", wait: float = 0.0) -> dict[str, Any] | None:
        """The job's pods; with `after`, None if they are still as in that revision when `wait` seconds have passed."""
        query = urllib.parse.urlencode({"after": after, "wait": wait})
        status, _, body = self._call("GET", f"/pods?{query}", accept=(200, 304), wait=wait)
        return None if status == 304 else json.loads(body)

    def plan(self) -> dict[str, Any]:
        """The plan that rules an EasyDL job, and what was made of it."""
        _, _, body = self._call("GET", "/plan")
        found: dict[str, Any] = json.loads(body)
        return found

    def post_plan(self, spec: dict[str, Any], reason: str, slot: Slot) -> dict[str, Any]:
        """Answered when it is durable; the same plan again changes nothing."""
        body = json.dumps({"spec": spec, "reason": reason}).encode()
        return self._json("POST", "/plan", body, {"EDL-Slot": slot.fence})

    def brain(self) -> dict[str, Any] | None:
        """Where Brain is, with a token; None where there is none."""
        status, _, body = self._call("GET", "/brain", accept=(200, 404))
        return json.loads(body) if status == 200 else None

    def spec(self) -> dict[str, Any]:
        """The job as its user wrote it; empty where the service does not tell."""
        status, _, body = self._call("GET", "/spec", accept=(200, 404))
        return json.loads(body) if status == 200 else {}

    def close(self) -> None:
        """Frees what is idle; a call that is under way ends by itself."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _json(self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        _, _, answer = self._call(method, path, body, headers)
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

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


def _refusal(status: int, answer: bytes) -> Exception:
    try:
        body = json.loads(answer)
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    if status in _COME_BACK:
        return ServiceDownError(f"{status} {body.get('error', '')}")
    if body.get("code") == "no-free-slot":
        return ServiceRefusalError(status, body)
    return _REFUSALS.get(status, ServiceRefusalError)(status, body)


def tls_context(ca: str) -> ssl.SSLContext:
    """`ca` is the PEM text that the operator puts in the environment, a file's path, or empty for the system's own."""
    if "-----BEGIN" in ca:
        return ssl.create_default_context(cadata=ca)
    return ssl.create_default_context(cafile=ca or None)
