"""Posts the history to the Brain: in batches, with the operator's own token, again and again until it is taken.

Nobody waits for it. While the Brain is away the news wait in the feed, which is bounded. A batch that the Brain refuses
for what is in it is dropped, counted and logged: it would be refused for ever.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from edl.brain.tokens import OPERATOR, mint
from edl.ledger.job_account import JobAccount
from edl.operator.accounting.history_feed import HistoryFeed
from edl.operator.settings import BrainSettings
from edl.protocol.history import HistoryBatch

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds between two looks for news
FIRST_RETRY, LAST_RETRY = 1.0, 60.0
TIMEOUT = 15.0
LAST_TRY = 1.0  # seconds at the end of a leadership
LIFETIME = 300.0  # of a token
_REFUSED = frozenset({400, 413, 422})


class RefusedBatchError(Exception):
    """The Brain will never take it."""


Post = Callable[[HistoryBatch], Awaitable[None]]
"""Raises RefusedBatchError, or anything else if it should be tried again."""


class HistoryPosts:
    def __init__(
        self,
        feed: HistoryFeed,
        account_of: Callable[[str], JobAccount | None],
        post: Post,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._feed, self._account_of, self._post, self._sleep = feed, account_of, post, sleep
        self._sending: HistoryBatch | None = None
        self.failing = False
        """The last try failed."""

    async def run(self) -> None:
        while True:
            await self._sleep(EVERY)
            await self.post_all()

    async def post_all(self) -> None:
        """All news there are; returns once they are taken."""
        while (batch := self._feed.batch(self._account_of)) is not None:
            self._sending = batch
            await self._until_taken(batch)
            self._sending = None

    async def post_last(self) -> None:
        """At the end of a leadership: what waits, in one try, for a job that was just deleted has nobody else."""
        try:
            async with asyncio.timeout(LAST_TRY):
                batch = self._sending or self._feed.batch(self._account_of)
                while batch is not None:
                    await self._post(batch)
                    batch = self._feed.batch(self._account_of)
        except Exception as error:  # the next leader tells what can be told again
            log.warning("the last of the history was not taken: %s", error or type(error).__name__)

    async def _until_taken(self, batch: HistoryBatch) -> None:
        pause = FIRST_RETRY
        while True:
            try:
                await self._post(batch)
            except RefusedBatchError as error:
                log.error("the Brain refuses a part of the history, which is lost: %s", error)
                self._feed.dropped += len(batch.jobs) + len(batch.cluster)
                return
            except Exception as error:  # whatever it is, jobs do not depend on it
                if not self.failing:
                    log.warning("the Brain does not take the history, which waits: %s", error or type(error).__name__)
                self.failing = True
                await self._sleep(pause)
                pause = min(2 * pause, LAST_RETRY)
            else:
                if self.failing:
                    log.info("the Brain takes the history again")
                self.failing = False
                return


def post_to(brain: BrainSettings, clock: Callable[[], float]) -> Post:
    """To the Brain's address. A connection for each batch: there is one in some seconds."""
    tls: ssl.SSLContext | bool = ssl.create_default_context(cadata=brain.ca) if brain.ca else True

    async def post(batch: HistoryBatch) -> None:
        token = mint(brain.key, OPERATOR, clock() + LIFETIME)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                f"{brain.url.rstrip('/')}/v1/history",
                data=msgspec.json.encode(batch),
                headers=headers,
                ssl=tls,
            ) as response,
        ):
            if response.status == 200:
                return
            words = (await response.text())[:500]
            refused = RefusedBatchError if response.status in _REFUSED else ConnectionError
            raise refused(f"{response.status} {words}")

    return post
