"""Bearer tokens: signed statements of the jobs that their holder may act for, with an expiry.

A token is `edlb1.SUBJECT.EXPIRES.SIGNATURE`, signed with a key that the Brain shares with the issuer (the operator, an
administrator). Nothing is stored; a new key voids all tokens. A subject is namespace/name/uid, as trainers get it;
administrators may make one for namespace/name (whatever the uid), namespace/* or *. Three open no job: the operator's
own may write the history, a reader's may read all of it, and that of who collects metrics opens nothing else.
"""

import base64
import binascii
import hmac

PREFIX = "edlb1"
LEAST_KEY = 16
OPERATOR, READER, METRICS = "@operator", "@reader", "@metrics"  # no namespace is called so


class TokenError(Exception):
    """The token is not valid here; the message says why, without revealing a valid one."""


def mint(key: bytes, subject: str, expires: float | None = None) -> str:
    if len(key) < LEAST_KEY:
        raise ValueError(f"the key has {len(key)} bytes, it must have {LEAST_KEY} or more")
    named = 1 <= subject.count("/") <= 2 and all(subject.split("/"))
    if subject not in ("*", OPERATOR, READER, METRICS) and not named:
        wanted = "namespace/name/uid, namespace/name, namespace/* or *"
        raise ValueError(f"subject is {subject!r}, it must be {wanted} (or {READER}, for all history)")
    body = f"{PREFIX}.{_pack(subject.encode())}.{0 if expires is None else int(expires)}"
    return f"{body}.{_pack(_sign(key, body))}"


def subject_of(key: bytes, token: str, now: float) -> str:
    """The subject of a valid token."""
    body, _, signature = token.rpartition(".")
    given = signature.encode(errors="surrogateescape")  # a header may hold bytes that are no text
    if not hmac.compare_digest(_pack(_sign(key, body)).encode(), given):
        raise TokenError("the token was not made with this Brain's key")
    _, subject, expires = body.split(".")
    if 0 < int(expires) <= now:
        raise TokenError("the token has expired; ask for a new one")
    return _unpack(subject).decode()


def opens(subject: str, job: str) -> bool:
    """Whether a subject may act for namespace/name/uid."""
    if subject == "*":
        return True
    return job.startswith(subject[:-1]) if subject.endswith("/*") else f"{job}/".startswith(f"{subject}/")


def writes_history(subject: str) -> bool:
    return subject in ("*", OPERATOR)


def reads_all(subject: str) -> bool:
    """The history of every job, and of the cluster."""
    return subject in ("*", READER)


def namespace_of(subject: str) -> str:
    """The only namespace that the subject may act in, empty for *."""
    return "" if subject == "*" else subject.partition("/")[0]


def read_key(text: bytes) -> bytes:
    """The key in a file's contents, without surrounding space."""
    key = text.strip()
    if len(key) < LEAST_KEY:
        raise ValueError(f"the key has {len(key)} bytes, it must have {LEAST_KEY} or more: openssl rand -hex 32")
    return key


def _sign(key: bytes, body: str) -> bytes:
    return hmac.digest(key, body.encode(errors="surrogateescape"), "sha256")


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise TokenError("the token cannot be read") from None
