"""API server as an async context manager: opens the store, listens, stops."""

import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from edl.embedded.server.api import Api
from edl.embedded.server.authorization import PodGroups, no_groups
from edl.embedded.server.bootstrap import bootstrap
from edl.embedded.server.core import Core, decode, encode
from edl.embedded.server.crds.cleanup import DefinitionCleanup
from edl.embedded.server.crds.custom import CustomAdmission, admit_all
from edl.embedded.server.event_expiry import EventExpiry
from edl.embedded.server.http.listener import HttpListener
from edl.embedded.server.http.tokens import Tokens
from edl.embedded.server.registry import Registry
from edl.embedded.server.storage.store import Store
from edl.embedded.server.types.builtin import builtin_resources
from edl.embedded.server.verbs.call import User

_KEY = ("internal/keys", ("", "service-accounts"))


class Server:
    """`async with Server(path, tokens={...}) as server:` serves until the block ends; `server.url` says where.

    path: the store's file; None keeps everything in memory.
    host, port: where to listen; port 0 takes a free one.
    tls: the listener's context; without it plain HTTP is spoken. `root_ca` is the PEM that clients should trust.
    tokens: bearer tokens and whose they are. Client certificates that `tls` accepts count as well.
    node_tls: the context with which nodes are called for logs, exec and port-forward (see `edl.embedded.streaming`).
    custom_admission: admission for custom resources beyond their schemas.
    pod_groups: API groups of custom resources that tokens of service accounts open, in their own namespace.
    default_tokens: whether the default service account of a new namespace gives its pods a token.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        tokens: Mapping[str, User],
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        root_ca: str = "",
        node_tls: ssl.SSLContext | None = None,
        service_network: str = "127.96.0.0/12",
        custom_admission: CustomAdmission = admit_all,
        pod_groups: PodGroups = no_groups,
        default_tokens: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._host, self._port, self._tls = path, host, port, tls
        self._fixed, self._root_ca, self._node_tls = tokens, root_ca, node_tls
        self._network, self._rules, self._clock = service_network, custom_admission, clock
        self._pod_groups, self._default_tokens = pod_groups, default_tokens
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    async def start(self) -> None:
        self.store = Store(self._path)
        self.core = Core(
            self.store,
            Registry(builtin_resources()),
            clock=self._clock,
            root_ca=self._root_ca,
            service_network=self._network,
            custom_admission=self._rules,
            pod_groups=self._pod_groups,
            default_tokens=self._default_tokens,
        )
        tokens = Tokens(self._fixed, key=await self._signing_key(), account_uid=self._account_uid, clock=self._clock)
        self.api = Api(self.core, tokens)
        self._listener = HttpListener(self.api, node_tls=self._node_tls)
        self.port = await self._listener.start(self._host, self._port, self._tls)
        await bootstrap(self.core, port=self.port)
        self._cleanup = DefinitionCleanup(self.core)
        self._cleanup.start()
        self._event_expiry = EventExpiry(self.core)
        self._event_expiry.start()

    async def stop(self) -> None:
        await self._event_expiry.stop()
        await self._cleanup.stop()
        await self._listener.stop()
        await self.store.close()

    async def _signing_key(self) -> bytes:
        """The key of service accounts' tokens outlives a restart, or running pods would lose their identity."""
        entry = self.store.get(*_KEY)
        if entry is None:
            entry = self.store.put(*_KEY, encode({"key": secrets.token_hex(32)}))
            await self.store.committed()
        return bytes.fromhex(decode(entry.body)["key"])

    def _account_uid(self, namespace: str, name: str) -> str | None:
        entry = self.store.get("/serviceaccounts", (namespace, name))
        return str(decode(entry.body)["metadata"]["uid"]) if entry is not None else None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
