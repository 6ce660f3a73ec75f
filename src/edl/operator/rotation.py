"""Keeps the certificate of a running operator good: renewed in time, and presented from the next handshake on.

Every replica looks, so that those which did not renew it follow the one that did. An installation whose key or
authority was replaced is another one: there the process must end and start anew, for too much is derived from them.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from edl.kube.client import Client
from edl.kube.errors import KubeError
from edl.operator.identity import Identity, load_identity

log = logging.getLogger(__name__)

EVERY = 3600.0


class IdentityReplacedError(KubeError):
    """The Secret of the installation holds another key or authority than we started with."""


class Rotation:
    """`tls` is what the listeners present; they need not know that it changes."""

    def __init__(
        self,
        client: Client,
        identity: Identity,
        *,
        namespace: str,
        secret: str,
        names: Sequence[str],
        every: float = EVERY,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity, self.tls = identity, identity.tls()
        self._client, self._namespace, self._secret, self._names = client, namespace, secret, names
        self._every, self._now = every, now

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except IdentityReplacedError:
                raise
            except (KubeError, ssl.SSLError) as error:
                log.warning("the certificate could not be looked after: %s", error)

    async def look(self) -> None:
        found = await load_identity(self._client, self._namespace, self._secret, self._names, now=self._now())
        if (found.key, found.ca) != (self.identity.key, self.identity.ca):
            raise IdentityReplacedError(
                f"Secret {self._namespace}/{self._secret} was replaced; starting anew, running jobs get new keys"
            )
        if found.certificate != self.identity.certificate:
            found.pair.load_into(self.tls)
            log.info("a new certificate, good until %s", found.pair.ends)
        self.identity = found
