"""What one viewer may see: jobs by kind and namespace, pods, and the cluster as a whole.

The cluster, its totals, fairness and plans need `list` on nodes, pods and all our kinds in all namespaces. Who has less
sees the jobs of the namespaces in which they may list them, and no count of anything else.
"""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from edl.jobs.core.kind import Kind
from edl.jobs.registry import JOB_KINDS
from edl.kube.rest.access_reviews import Access, Rights

Namespaces = frozenset[str] | None
"""None: all of them."""


class Visibility(msgspec.Struct, frozen=True):
    jobs: Mapping[str, Namespaces]
    """By kind."""
    cluster: bool

    def sees(self, kind: str, namespace: str) -> bool:
        allowed = self.jobs.get(kind, frozenset())
        return allowed is None or namespace in allowed

    @property
    def namespaces(self) -> list[str] | None:
        """Those in which any job may be seen; None: all."""
        found: set[str] = set()
        for allowed in self.jobs.values():
            if allowed is None:
                return None
            found |= allowed
        return sorted(found)


def listing(kind: Kind, namespace: str = "") -> Access:
    return Access("list", kind.group, kind.plural, namespace)


async def visibility_of(rights: Rights, namespaces: Mapping[str, Iterable[str]]) -> Visibility:
    """`namespaces`: by kind, those in which there are jobs. KubeError if nobody can say."""
    everywhere = await asyncio.gather(*(rights.may(listing(kind)) for kind in JOB_KINDS))
    jobs: dict[str, Namespaces] = {}
    for kind, whole in zip(JOB_KINDS, everywhere, strict=True):
        if whole:
            jobs[kind.crd_name] = None
            continue
        there = sorted(namespaces.get(kind.crd_name, ()))
        allowed = await asyncio.gather(*(rights.may(listing(kind, one)) for one in there))
        jobs[kind.crd_name] = frozenset(one for one, may in zip(there, allowed, strict=True) if may)
    cluster = all(everywhere) and all(
        await asyncio.gather(rights.may(Access("list", "", "nodes")), rights.may(Access("list", "", "pods")))
    )
    return Visibility(jobs, cluster)
