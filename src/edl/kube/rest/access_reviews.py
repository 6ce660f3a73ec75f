"""Who a token is and what its bearer may do, as the API server says (TokenReview, SubjectAccessReview).

Its word counts for a minute; so a token that expires, or a right that is taken away, is noticed within one.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
SELF_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
REMEMBERED_FOR = 60.0
TOKENS = 1024  # answers; who asks with ever new tokens makes us ask ever anew, and fills nothing
ANSWERS = 50_000
AT_ONCE = 16
TIMEOUT = 10.0


class Identity(msgspec.Struct, frozen=True, gc=False):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class Access(msgspec.Struct, frozen=True, gc=False):
    """What somebody wants to do, with a resource or a path. No namespace means all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    subresource: str = ""
    path: str = ""


class Rights(Protocol):
    """What one viewer may do."""

    async def may(self, access: Access) -> bool: ...


class AllRights:
    """Of whoever has the cluster's own credential."""

    async def may(self, access: Access) -> bool:
        return True


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: Identity = Identity()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Reviews:
    """Asks the API server and remembers. `client` is the server's own account."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._tokens: dict[bytes, tuple[Identity | None, float]] = {}
        self._answers: dict[tuple[str, Access], tuple[bool, float]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def identify(self, token: str) -> Identity | None:
        """None: it is no token of the cluster, or no longer. KubeError: nobody knows."""
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        known = self._tokens.get(digest)
        if known is not None and self._clock() - known[1] < REMEMBERED_FOR:
            return known[0]
        body = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
        async with self._turns:
            found = (await self._client.create(TOKEN_REVIEWS, body, type=_TokenReview, timeout=TIMEOUT)).status
        identity = found.user if found.authenticated else None
        if len(self._tokens) >= TOKENS:
            self._tokens.clear()
        self._tokens[digest] = identity, self._clock()
        return identity

    def of(self, identity: Identity) -> Rights:
        spec: dict[str, object] = {
            "user": identity.username,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": identity.extra,
        }
        who = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()
        return _Reviewed(who, spec, ACCESS_REVIEWS, self._ask)

    def of_myself(self) -> Rights:
        """Of the account that `client` has."""
        return _Reviewed("", {}, SELF_REVIEWS, self._ask)

    async def _ask(self, who: str, spec: dict[str, object], review: Resource, access: Access) -> bool:
        known = self._answers.get((who, access))
        if known is not None and self._clock() - known[1] < REMEMBERED_FOR:
            return known[0]
        asked = {name: value for name, value in msgspec.structs.asdict(access).items() if value}
        attributes = "nonResourceAttributes" if access.path else "resourceAttributes"
        body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {**spec, attributes: asked}}
        async with self._turns:
            found = await self._client.create(review, body, type=_AccessReview, timeout=TIMEOUT)
        if len(self._answers) >= ANSWERS:
            self._answers.clear()
        self._answers[who, access] = found.status.allowed, self._clock()
        return found.status.allowed


class _Reviewed:
    def __init__(
        self,
        who: str,
        spec: dict[str, object],
        review: Resource,
        ask: Callable[[str, dict[str, object], Resource, Access], Awaitable[bool]],
    ) -> None:
        self._who, self._spec, self._review, self._ask = who, spec, review, ask

    async def may(self, access: Access) -> bool:
        return await self._ask(self._who, self._spec, self._review, access)
