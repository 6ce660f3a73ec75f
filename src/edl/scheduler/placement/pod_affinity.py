"""Required pod affinity, anti-affinity (which works both ways) and topology spread, as rules on counters.

Each rule is about a counter: how many pods that some selector matches, or that hold some anti-affinity, are in each
topology domain. Most training pods have none of this, and then nothing here costs anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edl.api.kubernetes.core import LabelRequirement, LabelSelector, PodAffinityTerm, PodSpec, convert
from edl.api.kubernetes.selectors import requirement_holds
from edl.scheduler.snapshot.types import Counter, Rule

Labels = Mapping[str, str]
_NOTHING = (LabelRequirement("", "Exists"),)  # no selector at all matches no pod


class Term(msgspec.Struct, frozen=True):
    """Pods that meet the requirements, in these namespaces (None: in all), by domain of the topology."""

    topology: str
    requirements: tuple[LabelRequirement, ...]
    namespaces: frozenset[str] | None

    def matches(self, namespace: str, labels: Labels) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and _hold(self.requirements, labels)


class Pods(msgspec.Struct, frozen=True, eq=False):
    """One pod, or all the pods of a role: what selectors see of them, and their own terms."""

    namespace: str
    labels: Labels
    anti_affinity: tuple[Term, ...] = ()
    affinity_terms: tuple[Term, ...] = ()
    spread: tuple[tuple[Term, int], ...] = ()


def has_anti_affinity(spec: PodSpec) -> bool:
    """Whether it has required anti-affinity, which binds other pods too."""
    affinity = spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None and bool(affinity.pod_anti_affinity.required)


def has_pod_rules(spec: PodSpec) -> bool:
    """Whether other pods restrict the nodes that it may go to."""
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    wants = affinity is not None and affinity.pod_affinity is not None and bool(affinity.pod_affinity.required)
    return wants or has_anti_affinity(spec) or bool(spread and any(_binds(one) for one in spread))


def pods_of(spec: PodSpec, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> Pods:
    """`namespaces`: labels by name, for terms that choose namespaces by label."""
    if not has_pod_rules(spec):
        return Pods(namespace, labels)
    affinity = spec.affinity
    affinity_terms = affinity.pod_affinity.required if affinity and affinity.pod_affinity else ()
    anti_affinity = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    return Pods(
        namespace,
        labels,
        anti_affinity=tuple(_term(term, namespace, labels, namespaces) for term in anti_affinity),
        affinity_terms=tuple(_term(term, namespace, labels, namespaces) for term in affinity_terms),
        spread=tuple(_spread(one, namespace, labels) for one in spec.topology_spread_constraints if _binds(one)),
    )


def _hold(requirements: Iterable[LabelRequirement], labels: Labels) -> bool:
    return all(requirement_holds(requirement, labels) for requirement in requirements)


def _requirements(selector: LabelSelector | None) -> tuple[LabelRequirement, ...]:
    if selector is None:
        return _NOTHING
    equal = (LabelRequirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return (*equal, *selector.match_expressions)


def _term(term: PodAffinityTerm, namespace: str, labels: Labels, namespaces: Mapping[str, Labels]) -> Term:
    same = (LabelRequirement(key, "In", (labels[key],)) for key in term.match_label_keys if key in labels)
    other = (LabelRequirement(key, "NotIn", (labels[key],)) for key in term.mismatch_label_keys if key in labels)
    requirements = (*_requirements(term.label_selector), *same, *other)
    return Term(term.topology_key, requirements, _namespaces(term, namespace, namespaces))


def _namespaces(term: PodAffinityTerm, namespace: str, namespaces: Mapping[str, Labels]) -> frozenset[str] | None:
    if term.namespace_selector is None:
        return frozenset(term.namespaces or (namespace,))
    chosen = _requirements(term.namespace_selector)
    if not chosen:
        return None
    return frozenset(term.namespaces) | {name for name, labels in namespaces.items() if _hold(chosen, labels)}


def _binds(constraint: Mapping[str, Any]) -> bool:
    return constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" and bool(
        constraint.get("topologyKey")
    )


def _spread(constraint: Mapping[str, Any], namespace: str, labels: Labels) -> tuple[Term, int]:
    selector = constraint.get("labelSelector")
    try:
        requirements = _requirements(convert(selector, LabelSelector) if selector is not None else None)
    except msgspec.ValidationError:
        requirements = _NOTHING
    keys = [key for key in constraint.get("matchLabelKeys") or () if isinstance(key, str) and key in labels]
    same = tuple(LabelRequirement(key, "In", (labels[key],)) for key in keys)
    skew = constraint.get("maxSkew", 1)
    term = Term(str(constraint["topologyKey"]), requirements + same, frozenset((namespace,)))
    return term, skew if isinstance(skew, int) and skew > 0 else 1


class PodAffinity:
    """All affinity terms of a snapshot, as counters; and the rules of each kind of pods."""

    def __init__(
        self, kinds: Sequence[Pods], present: Iterable[tuple[Pods, int]], node_labels: Sequence[Labels]
    ) -> None:
        """`kinds`: those to be placed. `present`: those on nodes, each with its node."""
        here = list(present)
        self.matching: dict[Term, int] = {}
        self.holding: dict[Term, int] = {}
        for pods in kinds:
            for term in (*pods.anti_affinity, *pods.affinity_terms, *(term for term, _ in pods.spread)):
                self.matching.setdefault(term, len(self.matching))
        for pods in (*kinds, *(pods for pods, _ in here)):
            for term in pods.anti_affinity:
                self.holding.setdefault(term, len(self.holding))
        self._counts: list[dict[str, int]] = [{} for _ in range(len(self.matching) + len(self.holding))]
        self._domains = [
            tuple(labels.get(term.topology) for labels in node_labels) for term in (*self.matching, *self.holding)
        ]
        for pods, node in here:
            for counter in self.counted(pods):
                domain = self._domains[counter][node]
                if domain is not None:
                    self._counts[counter][domain] = self._counts[counter].get(domain, 0) + 1

    def counters(self) -> tuple[Counter, ...]:
        return tuple(Counter(domains, counts) for domains, counts in zip(self._domains, self._counts, strict=True))

    def counted(self, pods: Pods) -> tuple[int, ...]:
        """The counters that such a pod adds to."""
        matched = [counter for term, counter in self.matching.items() if term.matches(pods.namespace, pods.labels)]
        return (*matched, *(len(self.matching) + self.holding[term] for term in pods.anti_affinity))

    def rules(self, pods: Pods) -> tuple[Rule, ...]:
        def itself(term: Term) -> bool:
            return term.matches(pods.namespace, pods.labels)

        avoided = [
            Rule("anti-affinity", len(self.matching) + counter)
            for term, counter in self.holding.items()
            if itself(term)
        ]
        return (
            *(Rule("anti-affinity", self.matching[term]) for term in pods.anti_affinity),
            *avoided,
            *(Rule("affinity", self.matching[term], counts_itself=itself(term)) for term in pods.affinity_terms),
            *(Rule("spread", self.matching[term], skew, itself(term)) for term, skew in pods.spread),
        )
