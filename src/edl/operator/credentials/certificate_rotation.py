"""Rotates the certificate of a running operator: renewed in time, presented from the next handshake on.

Every replica checks, so that those which did not renew it pick up the one that did. If the installation's key or
authority was replaced, the operator sees to it that what it knows outlives it (`identity`), and then the process must
end and start again, because too much is derived from them. The replacement is over when no pod is left that was made
before it.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.operator.credentials.identity import OVERLAP, Identity, forget_previous, load_identity

log = logging.getLogger(__name__)

EVERY = 15.0
HAND_OVER_WITHIN = 5.0


class IdentityReplacedError(KubeError):
    """The Secret of the installation holds another key or authority than at the start."""


class Rotation:
    """`tls` is what the listeners present; they need not know that it changes. `outlived(time)` says whether all pods
    that were made before a time are gone."""

    def __init__(
        self,
        client: Client,
        identity: Identity,
        *,
        namespace: str,
        secret: str,
        names: Sequence[str],
        authority_secret: str = "",
        every: float = EVERY,
        outlived: Callable[[float], bool] = lambda since: False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.identity, self.tls = identity, identity.tls()
        self._client, self._namespace, self._secret, self._names = client, namespace, secret, names
        self._authority_secret = authority_secret
        self._every, self._outlived, self._now = every, outlived, now

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.renew_if_due()
            except IdentityReplacedError:
                raise
            except (KubeError, ssl.SSLError) as error:
                log.warning("the certificate could not be looked after: %s", error)

    async def renew_if_due(self) -> None:
        found = await self._load()
        if (found.key, found.ca, found.previous) != (self.identity.key, self.identity.ca, self.identity.previous):
            raise IdentityReplacedError(
                f"Secret {self._namespace}/{self._secret} was replaced; starting anew, running pods keep their access"
            )
        if found.certificate != self.identity.certificate:
            found.pair.load_into(self.tls)
            log.info("a new certificate, good until %s", found.pair.ends)
        self.identity = found
        await self._end_replacement()

    async def hand_over(self) -> None:
        """Before the process ends: a successor cannot know what was in a Secret that has been replaced."""
        try:
            async with asyncio.timeout(HAND_OVER_WITHIN):
                await self._load()
        except (KubeError, TimeoutError) as error:
            log.warning("the certificate could not be looked after: %s", error)

    async def _load(self) -> Identity:
        return await load_identity(
            self._client,
            self._namespace,
            self._secret,
            self._names,
            now=self._now(),
            known=self.identity,
            authority_secret=self._authority_secret,
        )

    async def _end_replacement(self) -> None:
        previous = self.identity.previous
        if previous is None or self._now().timestamp() < previous.since + OVERLAP:
            return
        if self._outlived(previous.since + OVERLAP):
            log.info("all pods know the new authority: the former one is forgotten")
            await forget_previous(self._client, self._namespace, self._secret, self._names)
