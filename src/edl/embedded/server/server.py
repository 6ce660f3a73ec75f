"""The API server as an object: open a store, listen, stop."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from edl.embedded.server.api import Api
from edl.embedded.server.bootstrap import bootstrap
from edl.embedded.server.builtin import builtin_resources
from edl.embedded.server.call import User
from edl.embedded.server.core import Core
from edl.embedded.server.http import Front
from edl.embedded.server.registry import Registry
from edl.embedded.server.store import Store


class Server:
    """`async with Server(path, tokens={...}) as server:` serves until the block ends; `server.url` says where.

    `path` None keeps everything in memory. `port` 0 takes a free one. Without `tls` it speaks plain HTTP.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        tokens: Mapping[str, User],
    ) -> None:
        self._path, self._host, self._port, self._tls = path, host, port, tls
        self._tokens = tokens
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    async def start(self) -> None:
        self.store = Store(self._path)
        self.api = Api(Core(self.store, Registry(builtin_resources())))
        await bootstrap(self.api.core)
        self._front = Front(self.api, tokens=self._tokens)
        self.port = await self._front.start(self._host, self._port, self._tls)

    async def stop(self) -> None:
        await self._front.stop()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
