"""Client of the Brain, with blocking calls. An answer that cannot be used is an error with a message.

Used by trainers, which carry on without it, and by the command line.
"""

import http.client
import ssl
import urllib.parse
from typing import Any, TypeVar

import msgspec

from edl.ledger.report import PeriodReport
from edl.protocol.brain import Answer, Ask, Beginning, Ending, JobDetail, JobLine, Report
from edl.protocol.errors import Refusal
from edl.protocol.history import ClusterPoint, HistoryBatch, HistoryLine, JobPast
from edl.protocol.kept_logs import KeptLogInfo, KeptLogText

T = TypeVar("T")
TIMEOUT = 5.0
MOST = 64 << 20


class BrainDownError(Exception):
    """No answer, one that says to come back later, or one that makes no sense."""


class BrainRefusalError(Exception):
    """A final answer: asking the same again will not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code = status, code


class BrainClient:
    def __init__(self, url: str, token: str, *, ca: str = "", timeout: float = TIMEOUT) -> None:
        self._kept: http.client.HTTPConnection | None = None
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the Brain's address is {url!r}, it must be http(s)://host:port")
        self.url, self._host, self._port, self._path = url, parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = _tls(ca) if parts.scheme == "https" else None
        self._token, self._timeout = token, timeout

    def close(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def __del__(self) -> None:
        """A trainer drops a client whose token has expired."""
        self.close()

    def what_if(self, beginning: Beginning) -> Answer:
        return self._call("POST", "/v1/plan", beginning, Answer)

    def begin(self, job: str, beginning: Beginning) -> Answer:
        return self._call("POST", f"/v1/jobs/{_quoted(job)}", beginning, Answer)

    def report(self, job: str, report: Report) -> None:
        self._call("POST", f"/v1/jobs/{_quoted(job)}/reports", report, dict[str, Any])

    def plan(self, job: str, ask: Ask) -> Answer:
        return self._call("POST", f"/v1/jobs/{_quoted(job)}/plan", ask, Answer)

    def end(self, job: str, ending: Ending) -> None:
        self._call("POST", f"/v1/jobs/{_quoted(job)}/outcome", ending, dict[str, Any])

    def jobs(self, limit: int = 100) -> list[JobLine]:
        return self._call("GET", f"/v1/jobs?limit={limit}", None, list[JobLine])

    def job(self, name: str) -> JobDetail:
        return self._call("GET", f"/v1/jobs/{_quoted(name)}", None, JobDetail)

    def add_history(self, batch: HistoryBatch) -> None:
        self._call("POST", "/v1/history", batch, dict[str, Any])

    def history(self, *, since: float = 0.0, namespace: str = "", limit: int = 1000) -> list[HistoryLine]:
        """The jobs that lived then or later, newest first."""
        query = {"since": f"{since:.3f}", "namespace": namespace, "limit": limit}
        return self._call("GET", f"/v1/history?{urllib.parse.urlencode(query)}", None, list[HistoryLine])

    def past(self, name: str) -> JobPast:
        """Everything kept of namespace/name/uid, or of the newest job of namespace/name."""
        return self._call("GET", f"/v1/history/jobs/{_quoted(name)}", None, JobPast)

    def logs(self, name: str) -> list[KeptLogInfo]:
        """The pods of namespace/name/uid, or of the newest job of namespace/name, whose logs are kept."""
        return self._call("GET", f"/v1/history/jobs/{_quoted(name)}/logs", None, list[KeptLogInfo])

    def log(self, job: str, pod: str, *, since: float = 0.0) -> str:
        """What is kept of the log of a pod of namespace/name/uid, from about then on."""
        path = f"/v1/history/jobs/{_quoted(job)}/logs/{_quoted(pod)}?since={since:.3f}"
        return self._call("GET", path, None, KeptLogText).lines

    def cluster_history(self, *, since: float, until: float, points: int = 1000) -> list[ClusterPoint]:
        """Needs a token for * or @reader. At most so many points, each the mean of its seconds."""
        query = {"since": f"{since:.3f}", "until": f"{until:.3f}", "points": points}
        return self._call("GET", f"/v1/history/cluster?{urllib.parse.urlencode(query)}", None, list[ClusterPoint])

    def period_report(self, *, since: float, until: float, namespace: str = "") -> PeriodReport:
        """Without the cluster unless the token is for * or @reader."""
        query = {"since": f"{since:.3f}", "until": f"{until:.3f}", "namespace": namespace}
        return self._call("GET", f"/v1/history/report?{urllib.parse.urlencode(query)}", None, PeriodReport)

    def _call(self, method: str, path: str, body: object, kind: type[T]) -> T:
        status, answer = self._exchange(method, path, None if body is None else msgspec.json.encode(body))
        if status == 200:
            try:
                return msgspec.json.decode(answer, type=kind)
            except msgspec.DecodeError as error:
                raise BrainDownError(f"the Brain at {self.url} answers what makes no sense: {error}") from error
        try:
            refusal = msgspec.json.decode(answer, type=Refusal)
        except msgspec.DecodeError:
            refusal = Refusal("no words", "unknown")
        if status >= 500 or status == 429:
            raise BrainDownError(f"{status} {refusal.error}")
        raise BrainRefusalError(status, refusal.code, refusal.error)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """On the connection of the last call, if it is still good; every call may be repeated, so if it is not, once
        more on a new one."""
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                return self._on(kept, method, path, body)
            except (ConnectionError, ssl.SSLError):
                pass
            except (OSError, http.client.HTTPException) as error:
                raise BrainDownError(f"{type(error).__name__}: {error}") from error
        try:
            return self._on(self._connection(), method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise BrainDownError(f"{type(error).__name__}: {error}") from error

    def _on(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, self._path + path, body, {"Authorization": f"Bearer {self._token}"})
            response = connection.getresponse()
            answer = response.status, response.read(MOST)
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._kept = connection
        else:
            connection.close()
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)


def _quoted(job: str) -> str:
    return "/".join(urllib.parse.quote(part, safe="") for part in job.split("/"))


def _tls(ca: str) -> ssl.SSLContext:
    if "-----BEGIN" in ca:
        return ssl.create_default_context(cadata=ca)
    return ssl.create_default_context(cafile=ca or None)
