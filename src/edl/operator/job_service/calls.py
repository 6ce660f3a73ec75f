"""Reads calls and writes answers: headers, bodies, revisions and refusals, alike for every call."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from edl.operator.job_service.refusals import NotLeadingError, RefusedError
from edl.operator.job_service.state import LIMIT, Change, JobState, check
from edl.operator.job_service.store import UnavailableError
from edl.protocol.errors import ErrorCode, JobServiceRefusal
from edl.protocol.slots import FENCE_HEADER, Slot

MAX_WAIT = 30.0
MAX_DIGITS = 18

T = TypeVar("T")


def fenced(request: web.Request, change: Change) -> Change:
    """The change, made only if the call comes from the present holder of the slot that it names, if it names one."""
    fence = fence_of(request)

    def checked(state: JobState) -> tuple[JobState, int]:
        if fence is not None:
            check(state, fence)
        return change(state)

    return checked


def fence_of(request: web.Request) -> Slot | None:
    header = request.headers.get(FENCE_HEADER)
    return parse_fence(header) if header else None


def parse_fence(text: str) -> Slot:
    try:
        return Slot.parse(text)
    except ValueError:
        message = f"{FENCE_HEADER} is {text!r}, it must be role/index/epoch"
        raise RefusedError(400, ErrorCode.BAD_SLOT, message) from None


def decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.DecodeError as error:
        raise RefusedError(400, ErrorCode.BAD_BODY, f"the body cannot be read: {error}") from None


def token_of(request: web.Request) -> bytes:
    """In a header of its own for who comes through an API server's proxy: that one keeps Authorization to itself."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given = token if scheme == "Bearer" else request.headers.get("EDL-Token", "")
    return given.encode(errors="surrogateescape")  # bytes that are no text are a wrong token, like any other


def if_match(request: web.Request) -> int | None:
    return optional(request.headers.get("If-Match", "").strip('"') or None, "If-Match")


def optional(text: str | None, what: str) -> int | None:
    return None if text is None else number(text, what)


def number(text: str, what: str) -> int:
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise RefusedError(400, ErrorCode.BAD_NUMBER, f"{what} is {text[:40]!r}, it must be a whole number")
    return int(text)


def seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), MAX_WAIT)
    except ValueError:
        raise RefusedError(400, ErrorCode.BAD_NUMBER, f"wait is {text!r}, it must be a number of seconds") from None


def revision_of(body: msgspec.Struct) -> str:
    """A digest: the same body has the same revision under every leader."""
    return hashlib.blake2b(msgspec.json.encode(body), digest_size=8).hexdigest()


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json")


@web.middleware
async def answer_refusals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusedError as refused:
        retry = refused.body.retry_after
        response = answer(refused.body, refused.status, {"Retry-After": str(retry)} if retry else None)
        if isinstance(refused, NotLeadingError):
            response.force_close()  # on this connection it would come to us again, whoever leads by now
        return response
    except UnavailableError as error:
        return _refusal(503, ErrorCode.UNAVAILABLE, f"the job's state cannot be read: {error}")
    except web.HTTPRequestEntityTooLarge:
        return _refusal(413, ErrorCode.TOO_LARGE, f"a body has at most {LIMIT} bytes")
    except web.HTTPException as error:
        return _refusal(error.status, ErrorCode.NO_SUCH_CALL, error.reason)


def _refusal(status: int, code: ErrorCode, message: str) -> web.Response:
    return answer(JobServiceRefusal(message, code), status)
