"""Sessions of browsers, and one-time codes to begin one. In memory: a restart of the server ends all of them.

A secret is sent in a header that no other site can make a browser send, never in a cookie: so there is nothing for a
forged request to ride on, and nothing that another port of the same host is shown. Only digests are kept of secrets
that we hand out.
"""

import hashlib
import secrets
import time
from collections.abc import Callable

import msgspec

SESSION = "edl-session."  # begins every session, so that no token is taken for one
CODE_SECONDS = 60.0
IDLE_SECONDS = 2 * 3600.0
MOST_SECONDS = 12 * 3600.0
SESSIONS = 1000
CODES = 100


class Grant(msgspec.Struct, frozen=True):
    """What the holder of a session proved to have, a token of the cluster or of this server; and whether the page may
    change anything in their name, which they ask for when they log in."""

    token: str
    acts: bool = False


class _Session(msgspec.Struct):
    grant: Grant
    began: float
    used: float


class Sessions:
    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}  # the one used longest ago first
        self._codes: dict[bytes, tuple[Grant, float]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def code(self, grant: Grant, *, seconds: float = CODE_SECONDS) -> str:
        now = self._clock()
        self._codes = {key: one for key, one in self._codes.items() if now < one[1]}
        while len(self._codes) >= CODES:
            del self._codes[next(iter(self._codes))]
        made = secrets.token_urlsafe(32)
        self._codes[_digest(made)] = grant, now + seconds
        return made

    def redeem(self, code: str) -> Grant | None:
        """What the code stands for, once and in time."""
        found = self._codes.pop(_digest(code), None)
        return found[0] if found is not None and self._clock() < found[1] else None

    def begin(self, grant: Grant) -> str:
        now = self._clock()
        for key in [key for key, one in self._sessions.items() if self._over(one, now)]:
            del self._sessions[key]
        while len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        made = SESSION + secrets.token_urlsafe(32)
        self._sessions[_digest(made)] = _Session(grant, now, now)
        return made

    def grant(self, session: str) -> Grant | None:
        key, now = _digest(session), self._clock()
        found = self._sessions.pop(key, None)
        if found is None or self._over(found, now):
            return None
        found.used = now
        self._sessions[key] = found
        return found.grant

    def end(self, session: str) -> None:
        self._sessions.pop(_digest(session), None)

    def _over(self, session: _Session, now: float) -> bool:
        return now - session.used > IDLE_SECONDS or now - session.began > MOST_SECONDS


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()
