"""Node selectors and required node affinity: whether a pod accepts a node. Pure."""

from edl.api.kubernetes.core import Node, NodeSelectorTerm, Pod
from edl.api.kubernetes.selectors import labels_match, requirement_holds


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
    if not labels_match(pod.spec.node_selector, node.metadata.labels):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return True
    return any(term_matches(term, node) for term in affinity.required.node_selector_terms)
