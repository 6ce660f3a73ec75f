"""Bearer tokens: signed words that say which job their holder speaks for, and until when.

A token is `edlb1.SUBJECT.EXPIRES.SIGNATURE`, made with a key that the Brain and whoever hands out tokens (the operator,
an administrator) share. Nothing is stored; a new key voids all tokens. A subject is namespace/name, namespace/* or *.
"""

import base64
import binascii
import hmac
from fnmatch import fnmatchcase

PREFIX = "edlb1"
LEAST_KEY = 16


class TokenError(Exception):
    """The token opens nothing here; the message says why, without telling what would."""


def mint(key: bytes, subject: str, expires: float | None = None) -> str:
    if len(key) < LEAST_KEY:
        raise ValueError(f"the key has {len(key)} bytes, it must have {LEAST_KEY} or more")
    if subject != "*" and subject.count("/") != 1:
        raise ValueError(f"subject is {subject!r}, it must be namespace/name, namespace/* or *")
    body = f"{PREFIX}.{_pack(subject.encode())}.{0 if expires is None else int(expires)}"
    return f"{body}.{_pack(_sign(key, body))}"


def subject_of(key: bytes, token: str, now: float) -> str:
    """Whom the token is for."""
    body, _, signature = token.rpartition(".")
    if not hmac.compare_digest(_pack(_sign(key, body)).encode(), signature.encode()):
        raise TokenError("the token was not made with this Brain's key")
    _, subject, expires = body.split(".")
    if 0 < int(expires) <= now:
        raise TokenError("the token has expired; ask for a new one")
    return _unpack(subject).decode()


def opens(subject: str, job: str) -> bool:
    """Whether a subject may speak for namespace/name."""
    return subject == "*" or (subject.endswith("/*") and fnmatchcase(job, subject)) or subject == job


def read_key(text: bytes) -> bytes:
    """A key as it stands in a file; space around it does not count."""
    key = text.strip()
    if len(key) < LEAST_KEY:
        raise ValueError(f"the key has {len(key)} bytes, it must have {LEAST_KEY} or more: openssl rand -hex 32")
    return key


def _sign(key: bytes, body: str) -> bytes:
    return hmac.digest(key, body.encode(), "sha256")


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise TokenError("the token cannot be read") from None
