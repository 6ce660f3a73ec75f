"""Required affinity and anti-affinity between pods, both ways. Pure; skipped where nobody asks for it."""

from collections.abc import Mapping
from typing import NamedTuple

from edl.api.kubernetes.core import Pod, PodAffinityTerm
from edl.api.kubernetes.selectors import selector_matches
from edl.embedded.podscheduler.state import ClusterState, NodeState

NamespaceLabels = Mapping[str, Mapping[str, str]]


class Conflicts(NamedTuple):
    """Topology values (key, value) where the pod may not go, or must go."""

    repelled_by_others: frozenset[tuple[str, str]]
    repelled: frozenset[tuple[str, str]]
    attracted: tuple[frozenset[tuple[str, str]] | None, ...]
    """Per affinity term: where it holds; None for one that only the pod itself could fulfil, which holds anywhere."""


NOTHING = Conflicts(frozenset(), frozenset(), ())


def conflicts_of(pod: Pod, state: ClusterState, namespaces: NamespaceLabels) -> Conflicts:
    affinity = pod.spec.affinity
    anti = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    wanted = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    others = _repelled_by_others(pod, state, namespaces)
    if not anti and not wanted:
        return Conflicts(others, frozenset(), ()) if others else NOTHING
    repelled = frozenset(topology for term in anti for topology in _topologies(term, pod, state, namespaces))
    attracted = tuple(_attraction(term, pod, state, namespaces) for term in wanted)
    return Conflicts(others, repelled, attracted)


def refusal(conflicts: Conflicts, node: NodeState, pod: Pod) -> str | None:
    if conflicts is NOTHING:
        return None
    here = {(key, value) for key, value in node.node.metadata.labels.items()}
    terms = pod.spec.affinity.pod_affinity.required if pod.spec.affinity and pod.spec.affinity.pod_affinity else ()
    for term, topologies in zip(terms, conflicts.attracted, strict=True):
        if term.topology_key not in node.node.metadata.labels or (topologies is not None and not topologies & here):
            return "node(s) didn't match pod affinity rules"
    if conflicts.repelled & here:
        return "node(s) didn't match pod anti-affinity rules"
    if conflicts.repelled_by_others & here:
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _repelled_by_others(pod: Pod, state: ClusterState, namespaces: NamespaceLabels) -> frozenset[tuple[str, str]]:
    topologies = set()
    for node in state.nodes.values():
        for other in node.pods.values():
            affinity = other.spec.affinity
            for term in affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ():
                value = node.node.metadata.labels.get(term.topology_key)
                if value is not None and _selects(term, other, pod, namespaces):
                    topologies.add((term.topology_key, value))
    return frozenset(topologies)


def _attraction(
    term: PodAffinityTerm, pod: Pod, state: ClusterState, namespaces: NamespaceLabels
) -> frozenset[tuple[str, str]] | None:
    topologies = _topologies(term, pod, state, namespaces)
    return None if not topologies and _selects(term, pod, pod, namespaces) else frozenset(topologies)


def _topologies(
    term: PodAffinityTerm, pod: Pod, state: ClusterState, namespaces: NamespaceLabels
) -> set[tuple[str, str]]:
    topologies = set()
    for node in state.nodes.values():
        value = node.node.metadata.labels.get(term.topology_key)
        if value is not None and any(_selects(term, pod, other, namespaces) for other in node.pods.values()):
            topologies.add((term.topology_key, value))
    return topologies


def _selects(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: NamespaceLabels) -> bool:
    """Whether a term of `owner` speaks of `other`."""
    namespace = other.metadata.namespace
    if term.namespace_selector is not None:
        inside = namespace in term.namespaces or selector_matches(
            term.namespace_selector, namespaces.get(namespace, {})
        )
    else:
        inside = namespace in (term.namespaces or (owner.metadata.namespace,))
    labels = other.metadata.labels
    same = all(labels.get(key) == owner.metadata.labels.get(key) for key in term.match_label_keys)
    differ = all(labels.get(key) != owner.metadata.labels.get(key) for key in term.mismatch_label_keys)
    return inside and same and differ and selector_matches(term.label_selector, labels)
