"""Which nodes a pod accepts (labels, fields) and which taints it tolerates, by Kubernetes' rules. Pure."""

from collections.abc import Iterable, Mapping

from edl.api.core import LabelRequirement, LabelSelector, Node, NodeSelectorTerm, Pod, Taint, Toleration


def requirement_holds(one: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case "In":
            return value is not None and value in one.values
        case "NotIn":
            return value is None or value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(one, value)
    return False


def _compares(one: LabelRequirement, value: str | None) -> bool:
    try:
        have, bound = int(value or ""), int(one.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if one.operator == "Gt" else have < bound


def selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """No selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    return selector.match_labels.items() <= labels.items() and all(
        requirement_holds(one, labels) for one in selector.match_expressions
    )


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """An empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(requirement_holds(one, node.metadata.labels) for one in term.match_expressions) and all(
        requirement_holds(one, fields) for one in term.match_fields
    )


def accepts_node(pod: Pod, node: Node) -> bool:
    """The node selector and the required node affinity: any of its terms will do."""
    if not pod.spec.node_selector.items() <= node.metadata.labels.items():
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return any(term_matches(term, node) for term in affinity.required.node_selector_terms)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint], effects: tuple[str, ...]) -> Taint | None:
    """The first taint that keeps the pod away."""
    known = list(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(_tolerates(one, taint) for one in known):
            return taint
    return None


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if (one.effect and one.effect != taint.effect) or (one.key and one.key != taint.key):
        return False
    return one.operator == "Exists" or (bool(one.key) and one.value == taint.value)
