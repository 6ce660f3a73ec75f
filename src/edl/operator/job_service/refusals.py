"""Refusals that the job service answers with: an HTTP status, a stable code and a message."""

from typing import Any

from edl.protocol.errors import ErrorCode, JobServiceRefusal


class RefusedError(Exception):
    """An answer that is no success; `detail` are further fields of its body."""

    def __init__(self, status: int, code: ErrorCode, message: str, **detail: Any) -> None:
        message = message.encode(errors="backslashreplace").decode()  # a header may hold bytes that are no text
        super().__init__(message)
        self.status, self.code = status, code
        self.body = JobServiceRefusal(message, code, **detail)


class NotLeadingError(RefusedError):
    """Another replica leads, or will: ask again."""

    def __init__(self, message: str) -> None:
        super().__init__(503, ErrorCode.NOT_LEADING, message, retry_after=1)
