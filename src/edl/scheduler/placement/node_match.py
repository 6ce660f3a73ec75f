"""Matches pods with nodes as kube-scheduler does: node selector, required node affinity, taints and tolerations.

Pods with equal constraints share a `NodeMatch`; nodes that no `NodeMatch` of the snapshot can tell apart share a
class, so a match is evaluated once per class and not once per node.
"""

from collections.abc import Iterable, Mapping

import msgspec

from edl.api.kubernetes.core import NodeSelectorTerm, PodSpec, Taint, Toleration
from edl.api.kubernetes.selectors import requirement_holds
from edl.api.kubernetes.tolerations import untolerated

HOSTNAME = "kubernetes.io/hostname"
_NAME_FIELD = "metadata.name"
_REPELS = ("NoSchedule", "NoExecute")


class NodeMatch(msgspec.Struct, frozen=True):
    """The node constraints of a pod. Compared by value, so that equal ones are one."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Required affinity: one of these must hold; none at all, as an empty tuple, is never satisfied."""
    tolerations: tuple[Toleration, ...] = ()

    def keys(self) -> set[str]:
        """The node labels that it depends on."""
        expressions = (expression.key for term in self.terms or () for expression in term.match_expressions)
        return {key for key, _ in self.selector} | set(expressions)

    def matches_names(self) -> bool:
        return any(term.match_fields for term in self.terms or ())

    def refusal(self, name: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> str | None:
        """Why the node is excluded, or nothing."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return f"nodeSelector {key}={value}"
        if self.terms is not None and not any(_term_holds(term, name, labels) for term in self.terms):
            return "node affinity"
        taint = untolerated(self.tolerations, taints, _REPELS)
        if taint is not None:
            return f"taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
        return None


def node_match_of(spec: PodSpec) -> NodeMatch:
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    return NodeMatch(
        selector=tuple(sorted(spec.node_selector.items())),
        terms=required.node_selector_terms if required is not None else None,
        tolerations=spec.tolerations,
    )


def planned_nodes(spec: PodSpec) -> tuple[str, ...]:
    """The nodes that pods of ours made from this spec prefer because a plan put them there, one for each pod."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return ()
    return tuple(
        expression.values[0]
        for preferred in spec.affinity.node_affinity.preferred
        for expression in (*preferred.preference.match_fields, *preferred.preference.match_expressions)
        if expression.key in (_NAME_FIELD, HOSTNAME) and expression.operator == "In" and len(expression.values) == 1
    )


def _term_holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """All expressions of a term must hold; a term without any matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {_NAME_FIELD: name}
    return all(requirement_holds(one, labels) for one in term.match_expressions) and all(
        requirement_holds(one, fields) for one in term.match_fields
    )
