"""Reading a call and writing an answer: headers, bodies and refusals, in one place and alike for every call."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from .state import LIMIT, Change, Fence, JobState, NotLeadingError, RefusedError, check
from .store import UnavailableError

MAX_WAIT = 30.0

T = TypeVar("T")


def fenced(request: web.Request, change: Change) -> Change:
    header = request.headers.get("EDL-Slot")
    fence = Fence.parse(header) if header else None

    def checked(state: JobState) -> tuple[JobState, int]:
        check(state, fence)
        return change(state)

    return checked


def decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.DecodeError as error:
        raise RefusedError(400, "bad-body", f"the body cannot be read: {error}") from None


def token_of(request: web.Request) -> str:
    """In a header of its own for who comes through an API server's proxy: that one keeps Authorization to itself."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if scheme == "Bearer" else request.headers.get("EDL-Token", "")


def if_match(request: web.Request) -> int | None:
    return optional(request.headers.get("If-Match", "").strip('"') or None, "If-Match")


def optional(text: str | None, what: str) -> int | None:
    return None if text is None else number(text, what)


def number(text: str, what: str) -> int:
    if not text.isdecimal():
        raise RefusedError(400, "bad-number", f"{what} is {text!r}, it must be a whole number")
    return int(text)


def seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), MAX_WAIT)
    except ValueError:
        raise RefusedError(400, "bad-number", f"wait is {text!r}, it must be a number of seconds") from None


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, headers=headers, content_type="application/json")


@web.middleware
async def answer_refusals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusedError as refused:
        retry = refused.detail.get("retry_after")
        body = {"error": refused.words, "code": refused.code, **refused.detail}
        response = answer(body, refused.status, {"Retry-After": str(retry)} if retry else None)
        if isinstance(refused, NotLeadingError):
            response.force_close()  # on this connection it would come to us again, whoever leads by now
        return response
    except UnavailableError as error:
        return answer({"error": f"the job's state cannot be read: {error}", "code": "unavailable"}, 503)
    except web.HTTPRequestEntityTooLarge:
        return answer({"error": f"a body has at most {LIMIT} bytes", "code": "too-large"}, 413)
    except web.HTTPException as error:
        return answer({"error": error.reason, "code": "no-such-call"}, error.status)
