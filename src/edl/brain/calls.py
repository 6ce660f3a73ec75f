"""What the handlers of the Brain's server share: reading a body, answering, and turning errors into refusals."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from edl.brain.database import UnavailableError
from edl.brain.quotas import QuotaExceededError
from edl.protocol.errors import ErrorCode, Refusal

log = logging.getLogger(__name__)

T = TypeVar("T")
LIMIT = 4 << 20
RETRY = "1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RefusedError(Exception):
    def __init__(self, status: int, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.DecodeError as error:
        raise RefusedError(400, ErrorCode.BAD_BODY, f"the body cannot be read: {error}") from None


def answer(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except RefusedError as refused:
        return answer(Refusal(str(refused), refused.code), refused.status)
    except QuotaExceededError as exceeded:
        return answer(Refusal(str(exceeded), ErrorCode.QUOTA), 429)
    except UnavailableError as error:
        log.warning("the database does not answer: %s", error)
        response = answer(Refusal("the database does not answer; try again", ErrorCode.UNAVAILABLE), 503)
        response.headers["Retry-After"] = RETRY
        return response
    except web.HTTPRequestEntityTooLarge:
        return answer(Refusal(f"a body has at most {LIMIT} bytes", ErrorCode.TOO_LARGE), 413)
    except web.HTTPException as error:
        return answer(Refusal(error.reason, ErrorCode.NO_SUCH_CALL), error.status)
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return answer(Refusal("the Brain failed on this call; its log says how", ErrorCode.INTERNAL), 500)
