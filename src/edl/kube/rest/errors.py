"""Errors of calls to an API server, in three kinds that a caller can tell apart.

ApiError: the server answered and refused (its whole Status is kept). ConnectionLostError: there was no complete answer.
DeadlineExceededError: the time given to the call is over. All are KubeError: catching that one says "try later".
"""

from collections.abc import Mapping
from http.client import responses

import msgspec


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retryAfterSeconds: int = 0  # noqa: N815 - the wire's own name


class Status(msgspec.Struct, frozen=True):
    """meta/v1 Status, complete."""

    kind: str = "Status"
    apiVersion: str = "v1"  # noqa: N815 - the wire's own name
    metadata: dict[str, object] = {}
    status: str = "Failure"
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class KubeError(Exception):
    """Anything that kept a call from succeeding."""


class ConnectionLostError(KubeError):
    """No complete answer arrived. `sent` is False when the server cannot have seen the request."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UntrustedServerError(KubeError):
    """The server could not prove who it is, so nothing was sent to it; trying again would not help."""


class DeadlineExceededError(KubeError, TimeoutError):
    """The time given to a call is over; a write may or may not have happened."""


class UnexpectedAnswerError(KubeError):
    """The server agreed, but what it answered is not what was asked for."""


class ApiError(KubeError):
    """The server refused. `status` is its whole answer, `retry_after` the seconds it asked us to wait (or None)."""

    def __init__(self, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(f"{status.code} {status.reason or 'Error'}: {status.message}")
        self.status, self.retry_after = status, retry_after
        self.code, self.reason = status.code, status.reason
        self.is_unauthorized = self.code == 401
        self.is_forbidden = self.code == 403
        self.is_not_found = self.code == 404
        self.is_already_exists = self.code == 409 and self.reason == "AlreadyExists"
        self.is_conflict = self.code == 409 and self.reason != "AlreadyExists"
        """A resourceVersion or precondition did not hold, or another field manager owns the field."""
        self.is_gone = self.code == 410
        """The resourceVersion or the continue token is too old: list again."""
        self.is_invalid = self.code == 422

    @classmethod
    def from_answer(cls, code: int, headers: Mapping[str, str], body: bytes | bytearray, what: str) -> "ApiError":
        """An unknown path answers in plain text and a proxy in HTML: both become a Status that says what was asked."""
        try:
            status = msgspec.json.decode(body, type=Status)
        except msgspec.DecodeError:
            status = Status()
        if status.kind != "Status" or not status.code:
            text = body.decode(errors="replace").strip()[:1000]
            reason = responses.get(code, "").replace(" ", "")
            status = Status(code=code, reason=reason, message=f"{what}: {text or 'empty answer'}")
        asked = headers.get("Retry-After", "")
        seconds = float(asked) if asked.isdigit() else None
        if seconds is None and status.details is not None and status.details.retryAfterSeconds:
            seconds = float(status.details.retryAfterSeconds)
        return cls(status, retry_after=seconds)
