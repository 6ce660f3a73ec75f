"""From a call to its viewer: who it is, what they may see, and a client with their own credential.

Two doors. *Local*: the server runs on loopback for one person, and whoever has its token (by a one-time code of
`edl ui`) is that person. *Cluster*: the viewer's bearer token is reviewed by the API server. Logs, manifests, events
and actions are asked for with the viewer's own credential, so that the server's account needs no right to them.
"""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec
from aiohttp import web

from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.rest.access_reviews import AllRights, Reviews, Rights
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.kube.rest.transport import HttpTransport
from edl.serving.http import proved
from edl.web.access.sessions import SESSION, Grant, Sessions
from edl.web.access.visibility import Visibility, visibility_of
from edl.web.errors import RefusedError

CLIENTS = 256
LONGEST_TOKEN = 16 << 10
TOKEN_HEADER = "EDL-Token"  # the API server's proxy keeps Authorization for itself


class Known(msgspec.Struct, frozen=True):
    """Somebody who proved who they are."""

    name: str
    rights: Rights
    client: Client


class Door(Protocol):
    async def enter(self, token: str) -> Known | None:
        """Whose token it is; None: nobody's. KubeError: nobody knows right now."""

    async def close(self) -> None: ...


class LocalDoor:
    """One token, one person. `client` has that person's credential; with `rights` None they may do everything."""

    def __init__(self, token: str, client: Client, *, name: str = "you", rights: Rights | None = None) -> None:
        self._token = token.encode()
        self._known = Known(name, rights or AllRights(), client)

    async def enter(self, token: str) -> Known | None:
        return self._known if hmac.compare_digest(token.encode(errors="replace"), self._token) else None

    async def close(self) -> None:
        return None


class ClusterDoor:
    """`clients` makes a client out of a viewer's token."""

    def __init__(self, reviews: Reviews, clients: Callable[[str], Client]) -> None:
        self._reviews, self._make = reviews, clients
        self._clients: OrderedDict[bytes, Client] = OrderedDict()

    async def enter(self, token: str) -> Known | None:
        identity = await self._reviews.identify(token)
        if identity is None:
            return None
        return Known(identity.username, self._reviews.of(identity), await self._client(token))

    async def _client(self, token: str) -> Client:
        digest = hashlib.sha256(token.encode()).digest()
        client = self._clients.pop(digest, None) or self._make(token)
        self._clients[digest] = client
        while len(self._clients) > CLIENTS:
            await self._clients.popitem(last=False)[1].close()
        return client

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


def bearer_clients(config: ClientConfig) -> Callable[[str], Client]:
    """Clients of the same server that present a token and nothing else. `config` must hold no client certificate: the
    server would believe that one rather than the token; a pod's own configuration holds none."""
    tls = config.login

    def make(token: str) -> Client:
        async def login(refused: Auth | None) -> Auth:
            own = await tls(None)
            return Auth({"Authorization": f"Bearer {token}"}, own.tls)

        return Client(HttpTransport(msgspec.structs.replace(config, login=login)), field_manager="edl-web")

    return make


def fixed_client(server: str, auth: Auth) -> Client:
    return Client(HttpTransport(ClientConfig(server, fixed_auth(auth))), field_manager="edl-web")


class Viewer(msgspec.Struct, frozen=True):
    """`acts`: the page may change things in their name."""

    name: str
    token: str
    acts: bool
    rights: Rights
    client: Client
    visibility: Visibility


class Viewers:
    """`namespaces` says by kind where there are jobs."""

    def __init__(self, door: Door, sessions: Sessions, namespaces: Callable[[], Mapping[str, Iterable[str]]]) -> None:
        self._door, self.sessions, self._namespaces = door, sessions, namespaces

    async def of(self, request: web.Request) -> Viewer:
        """RefusedError says what to do."""
        viewer = await self.by_grant(self._grant(request))
        proved(request)
        return viewer

    async def by_grant(self, grant: Grant) -> Viewer:
        try:
            known = await self._door.enter(grant.token)
            if known is None:
                raise RefusedError(401, "unauthorized", "the token is not valid, or no longer; log in again")
            visibility = await visibility_of(known.rights, self._namespaces())
        except KubeError as error:
            raise RefusedError(503, "unavailable", f"the API server does not say who may see what: {error}") from None
        return Viewer(known.name, grant.token, grant.acts, known.rights, known.client, visibility)

    def _grant(self, request: web.Request) -> Grant:
        given = request.headers.get(TOKEN_HEADER, "")
        if given.startswith(SESSION):
            grant = self.sessions.grant(given)
            if grant is None:
                raise RefusedError(401, "unauthorized", "the session is over; log in again")
            return grant
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        token = given or (bearer.strip() if scheme.lower() == "bearer" else "")
        if not token:
            raise RefusedError(401, "unauthorized", "log in first: `edl ui` opens the page")
        if len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable():
            raise RefusedError(401, "unauthorized", "that is no token")
        return Grant(token, acts=True)
