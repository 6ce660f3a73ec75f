"""Which nodes a pod may go to: selector, required node affinity and tolerations, judged as kube-scheduler judges
them.

Pods of one kind of placement share a `Where`; nodes that no `Where` of the snapshot can tell apart share a class,
so a question is answered once per class and not once per node.
"""

from collections.abc import Iterable, Mapping

import msgspec

from edl.api.core import LabelRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration

HOSTNAME = "kubernetes.io/hostname"
_NAME_FIELD = "metadata.name"
_REPELS = ("NoSchedule", "NoExecute")


class Where(msgspec.Struct, frozen=True):
    """Compared by value, so that equal placements are one."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Required affinity: one of these must hold; none at all, as an empty tuple, is never satisfied."""
    tolerations: tuple[Toleration, ...] = ()

    def keys(self) -> set[str]:
        """The node labels that this asks about."""
        expressions = (expression.key for term in self.terms or () for expression in term.match_expressions)
        return {key for key, _ in self.selector} | set(expressions)

    def asks_names(self) -> bool:
        return any(term.match_fields for term in self.terms or ())

    def refusal(self, name: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> str | None:
        """Why the node is out of the question, or nothing."""
        for key, value in self.selector:
            if labels.get(key) != value:
                return f"nodeSelector {key}={value}"
        if self.terms is not None and not any(_term_holds(term, name, labels) for term in self.terms):
            return "node affinity"
        for taint in taints:
            if taint.effect in _REPELS and not any(tolerates(one, taint) for one in self.tolerations):
                return f"taint {taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
        return None


def where_of(spec: PodSpec) -> Where:
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    return Where(
        selector=tuple(sorted(spec.node_selector.items())),
        terms=required.node_selector_terms if required is not None else None,
        tolerations=spec.tolerations,
    )


def planned_node(spec: PodSpec) -> str:
    """The node that a pod of ours prefers because a plan put it there."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return ""
    for preferred in spec.affinity.node_affinity.preferred:
        term = preferred.preference
        for expression in (*term.match_fields, *term.match_expressions):
            if (
                expression.key in (_NAME_FIELD, HOSTNAME)
                and expression.operator == "In"
                and len(expression.values) == 1
            ):
                return expression.values[0]
    return ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _term_holds(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """All expressions of a term must hold; a term without any matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {_NAME_FIELD: name}
    return all(requirement_holds(one, labels) for one in term.match_expressions) and all(
        requirement_holds(one, fields) for one in term.match_fields
    )


def requirement_holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
    return False


def _compares(value: str | None, requirement: LabelRequirement) -> bool:
    """Gt and Lt are for integers; anything else does not match."""
    try:
        here, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return here > bound if requirement.operator == "Gt" else here < bound
