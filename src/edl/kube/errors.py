"""What can go wrong between us and an API server, in three kinds a caller can tell apart.

ApiError: the server answered and refused (its whole Status is kept). ConnectionLostError: there was no complete answer.
DeadlineExceededError: the time given to the call is over. All are KubeError: catching that one says "try later".
"""

from collections.abc import Mapping

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
        self.status = status
        self.retry_after = retry_after

    @classmethod
    def from_answer(cls, code: int, headers: Mapping[str, str], body: bytes | bytearray, what: str) -> "ApiError":
        """An unknown path answers in plain text and a proxy in HTML: both become a Status that says what was asked."""
        try:
            status = msgspec.json.decode(body, type=Status)
        except msgspec.DecodeError:
            status = Status()
        if status.kind != "Status" or not status.code:
            text = body.decode(errors="replace").strip()[:1000]
            status = Status(code=code, reason=_REASONS.get(code, ""), message=f"{what}: {text or 'empty answer'}")
        asked = headers.get("Retry-After", "")
        seconds = float(asked) if asked.isdigit() else None
        if seconds is None and status.details is not None and status.details.retryAfterSeconds:
            seconds = float(status.details.retryAfterSeconds)
        return cls(status, retry_after=seconds)

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def is_not_found(self) -> bool:
        return self.code == 404

    @property
    def is_already_exists(self) -> bool:
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """A resourceVersion or precondition did not hold, or another field manager owns the field."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def is_gone(self) -> bool:
        """The resourceVersion or the continue token is too old: list again."""
        return self.code == 410

    @property
    def is_invalid(self) -> bool:
        return self.code == 422

    @property
    def is_forbidden(self) -> bool:
        return self.code == 403

    @property
    def is_unauthorized(self) -> bool:
        return self.code == 401


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
