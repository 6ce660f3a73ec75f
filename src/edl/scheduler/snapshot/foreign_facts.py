"""Pods of others that have no node yet, as a plan sees them."""

from collections.abc import Iterable

from edl.scheduler.placement.node_match import node_match_of
from edl.scheduler.placement.pod_affinity import PodAffinity, pods_of
from edl.scheduler.snapshot.job_terms import NamespaceTerms
from edl.scheduler.snapshot.pod_facts import PodFacts, moment
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import ForeignPod


def foreign_pods(
    pending: Iterable[PodFacts], catalog: Catalog, affinity: PodAffinity | None, namespace_terms: NamespaceTerms
) -> tuple[ForeignPod, ...]:
    """Sorted by namespace and name."""
    found = []
    for pod in pending:
        spec, metadata = pod.pod.spec, pod.pod.metadata
        pods = pods_of(spec, metadata.namespace, metadata.labels, namespace_terms.labels)
        rules = affinity.rules(pods) if affinity is not None else ()
        counted = affinity.counted(pods) if affinity is not None else ()
        limits = pod.cpu_limit, pod.memory_limit
        priority = namespace_terms.pod_priority(spec)
        found.append(
            ForeignPod(
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
                owner=pod.controller or metadata.uid or f"{metadata.namespace}/{metadata.name}",
                shape=catalog.shape(pod.requests, limits, node_match_of(spec), priority, rules, counted),
                created=moment(metadata.creation_timestamp),
                refused=pod.refused_since is not None,
            )
        )
    return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))
