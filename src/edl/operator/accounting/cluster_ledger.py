"""The account of the cluster under one leader, fed by plans, and where it is kept: a ConfigMap of the installation.

The same object says how far the accounts of all jobs are known (`KeptCluster`), so that an account need not be written
as long as the job does the same.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence

import msgspec

from edl.api.kubernetes.core import ConfigMap
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.ledger.amounts import Amounts, total
from edl.ledger.booking import OpenAccount
from edl.ledger.cluster_account import ClusterAccount, ClusterNow, KeptCluster, book_cluster, divide, since
from edl.ledger.uses import HELD
from edl.operator.accounting.job_facts import amounts_of
from edl.operator.accounting.turns import in_turns
from edl.operator.reconcile.job_key import JobKey
from edl.operator.settings import LEDGER
from edl.protocol.history import ClusterPoint
from edl.scheduler.cluster_use import ClusterUse
from edl.scheduler.placement.resources import GPU_NAMES, PODS

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
LARGEST = 20
BEHIND = 2000  # accounts that are named one by one; with more of them, all are known only as far as the first
_FILE = "cluster.json"


class ClusterLedger:
    def __init__(
        self, *, clock: Callable[[], float], steady: Callable[[], float], gpus: Sequence[str] = GPU_NAMES
    ) -> None:
        self._clock, self._steady, self._gpus = clock, steady, gpus
        self._account, self._now = ClusterAccount(), ClusterNow()
        self._booked, self._reported = steady(), ClusterAccount()
        self._waiting = 0

    @property
    def account(self) -> ClusterAccount:
        """Up to now."""
        return book_cluster(self._account, self._now, self._steady() - self._booked)

    def lead(self, known: KeptCluster | None) -> None:
        """Goes on from what the predecessor kept; what was since then is estimated to be as it was."""
        self._booked, self._now, self._account = self._steady(), ClusterNow(), ClusterAccount()
        if known is not None:
            gap = max(0.0, self._clock() - known.until)
            self._account = book_cluster(known.account, known.now, gap, estimated=True)
            self._now = known.now
        self._reported = self._account

    def planned(self, use: ClusterUse) -> None:
        self._account, self._booked = self.account, self._steady()
        self._waiting = use.waiting
        self._now = divide(
            self._amounts(use.capacity),
            self._amounts(use.used_before),
            self._amounts(use.by_jobs),
            {why: self._amounts(wanted) for why, wanted in use.wanted.items()},
        )

    def _amounts(self, resources: Mapping[str, int]) -> Amounts:
        amounts = amounts_of(dict(resources), self._gpus, lead=False)
        return msgspec.structs.replace(amounts, instances=float(resources.get(PODS, 0)))

    def kept(self, behind: Mapping[str, float]) -> KeptCluster:
        now, named = self._clock(), dict(behind)
        if len(named) > BEHIND:
            now, named = min(now, *named.values()), {}
        return KeptCluster(now, named, self.account, self._now)

    def point(self, largest: dict[str, Amounts]) -> ClusterPoint | None:
        """The means since the last point, None if that was just now. `largest` are the jobs that hold most."""
        account = self.account
        passed, self._reported = since(account, self._reported), account
        if passed.seconds <= 0:
            return None
        share = 1 / passed.seconds
        return ClusterPoint(
            time=self._clock(),
            seconds=passed.seconds,
            capacity=passed.capacity * share,
            uses={use: amounts * share for use, amounts in passed.uses.items()},
            largest=largest,
            waiting=self._waiting,
            estimated=passed.estimated > 0,
        )


async def largest_of(jobs: Sequence[tuple[JobKey, OpenAccount]]) -> dict[str, Amounts]:
    """By NAMESPACE/NAME, those that hold most first."""
    held: list[tuple[float, float, str, Amounts]] = []
    async for key, account in in_turns(jobs):
        amounts = _held(account)
        if amounts.scarcest:
            held.append((amounts.gpus, amounts.cores, f"{key.namespace}/{key.name}", amounts))
    return {name: amounts for *_, name, amounts in heapq.nlargest(LARGEST, held, key=lambda one: one[:3])}


def _held(account: OpenAccount) -> Amounts:
    uses = [amounts for use, amounts in account.uses.items() if use in HELD]
    return uses[0] if len(uses) == 1 else total(uses)


class KeptInConfigMap:
    """Written by the leader alone; whoever else writes it loses. Nothing of the training depends on it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def load(self) -> KeptCluster | None:
        found = await self._find()
        try:
            return msgspec.json.decode(found.data.get(_FILE, ""), type=KeptCluster) if found is not None else None
        except msgspec.DecodeError:
            return None  # another version's, or edited: what it tells is lost

    async def save(self, kept: KeptCluster) -> None:
        found, data = await self._find(), {_FILE: msgspec.json.encode(kept).decode()}
        metadata = {"name": LEDGER, "namespace": self._namespace, "labels": {"app.kubernetes.io/part-of": "edl"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        if found is None:
            await self._client.create(CONFIG_MAPS, body, namespace=self._namespace)
        else:
            metadata["resourceVersion"] = found.metadata.resource_version
            await self._client.replace(CONFIG_MAPS, LEDGER, body, namespace=self._namespace)

    async def _find(self) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIG_MAPS, LEDGER, namespace=self._namespace, type=ConfigMap)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
