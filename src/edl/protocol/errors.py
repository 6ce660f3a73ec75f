"""Refusals of the job service and the Brain: a stable code to decide by, a message to show.

Clients tell refusals apart by `code`, never by the message. HTTP statuses are the operator's and the Brain's to choose;
an answer without a code (from a proxy, say) leaves a client nothing but its status.
"""

from enum import StrEnum

import msgspec


class ErrorCode(StrEnum):
    """All codes in use. A client may meet one that is not listed here: its operator may be newer."""

    BAD_BODY = "bad-body"
    BAD_HOLDER = "bad-holder"
    BAD_KEY = "bad-key"
    BAD_NAME = "bad-name"
    BAD_NUMBER = "bad-number"
    BAD_PLAN = "bad-plan"
    BAD_SLOT = "bad-slot"
    BUSY = "busy"
    FOREIGN = "foreign"
    INTERNAL = "internal"
    LEFTOVER = "leftover"
    NAME_TAKEN = "name-taken"
    NO_BRAIN = "no-brain"
    NO_FREE_SLOT = "no-free-slot"
    NO_LOGS = "no-logs"
    NO_PLANS = "no-plans"
    NO_SUCH_CALL = "no-such-call"
    NO_SUCH_JOB = "no-such-job"
    NO_SUCH_KEY = "no-such-key"
    NO_SUCH_POD = "no-such-pod"
    NO_SUCH_ROLE = "no-such-role"
    NOT_LEADING = "not-leading"
    QUOTA = "quota"
    ROUND = "round"
    RULED = "ruled"
    STALE_EPOCH = "stale-epoch"
    TOO_LARGE = "too-large"
    TOO_MANY_CALLS = "too-many-calls"
    UNAUTHORIZED = "unauthorized"
    UNAVAILABLE = "unavailable"
    VERSION = "version"


class Refusal(msgspec.Struct):
    """The body of every refusal of the Brain."""

    error: str
    code: str


class JobServiceRefusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of every refusal of the job service; `error` is the message, the rest depends on the code."""

    error: str = ""
    code: str = ""
    retry_after: int | None = None
    """Seconds."""
    epoch: int | None = None
    """The slot's present epoch, with `stale-epoch`."""
    version: int | None = None
    """The key's present version, 0 if it does not exist, with `version`."""
    by: str | None = None
    """The JobResource that rules the job, with `ruled`."""
    problems: list[str] | None = None
    """Field and fix of each, with `bad-plan`."""
