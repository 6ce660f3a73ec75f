"""Decides where one pod goes: the best node, or kube-scheduler's message why there is none. Pure."""

from collections import Counter
from typing import NamedTuple

from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.tolerations import untolerated
from edl.embedded.pod_requests import Amounts
from edl.embedded.podscheduler.affinity import NamespaceLabels, conflicts_of, refusal
from edl.embedded.podscheduler.capacity import lacking, requests_of
from edl.embedded.podscheduler.selectors import accepts_node, term_matches
from edl.embedded.podscheduler.state import ClusterState, NodeState

_AFFINITY, _TAINTS, _SPREAD = 2, 3, 1


class Outcome(NamedTuple):
    """A node, or a message that says why there is none."""

    node: str = ""
    message: str = ""


def decide(pod: Pod, state: ClusterState, namespaces: NamespaceLabels) -> Outcome:
    wanted = requests_of(pod)
    conflicts = conflicts_of(pod, state, namespaces)
    reasons: Counter[str] = Counter()
    fitting: list[NodeState] = []
    for node in state.nodes.values():
        found = _refusals(pod, wanted, node) or _list(refusal(conflicts, node, pod))
        if found:
            reasons.update(found)
        else:
            fitting.append(node)
    if not fitting:
        return Outcome(message=_message(reasons, len(state.nodes)))
    scores = _scores(pod, wanted, fitting)
    return Outcome(max(fitting, key=lambda node: (scores[node.name], -len(node.pods), _first(node.name))).name)


def _refusals(pod: Pod, wanted: Amounts, node: NodeState) -> list[str]:
    """Why a node cannot take the pod; of resources, all that are short."""
    if node.node.spec.unschedulable and not _tolerates_cordon(pod):
        return ["node(s) were unschedulable"]
    taint = untolerated(pod.spec.tolerations, node.hard, ("NoSchedule", "NoExecute"))
    if taint is not None:
        return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
    if not accepts_node(pod, node.node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in lacking(wanted, node.free)]


def _tolerates_cordon(pod: Pod) -> bool:
    return any(
        one.key in ("", "node.kubernetes.io/unschedulable")
        and one.operator == "Exists"
        and one.effect in ("", "NoSchedule")
        for one in pod.spec.tolerations
    )


def _list(reason: str | None) -> list[str]:
    return [] if reason is None else [reason]


def _message(reasons: Counter[str], nodes: int) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {listed}."


# Choosing


def _scores(pod: Pod, wanted: Amounts, nodes: list[NodeState]) -> dict[str, float]:
    """Preferred affinity and taints count most, each against the best and worst of the nodes; then the emptier node."""
    liked = _normalised({node.name: _preference(pod, node) for node in nodes})
    shunned = _normalised({node.name: _preferred_taints(pod, node) for node in nodes})
    return {
        node.name: _AFFINITY * liked[node.name]
        + _TAINTS * (100 - shunned[node.name])
        + _SPREAD * _emptiness(wanted, node)
        for node in nodes
    }


def _preference(pod: Pod, node: NodeState) -> float:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    preferred = affinity.preferred if affinity is not None else ()
    return sum(one.weight for one in preferred if term_matches(one.preference, node.node))


def _preferred_taints(pod: Pod, node: NodeState) -> float:
    soft = [taint for taint in node.node.spec.taints if taint.effect == "PreferNoSchedule"]
    return sum(untolerated(pod.spec.tolerations, [taint], ("PreferNoSchedule",)) is not None for taint in soft)


def _normalised(values: dict[str, float]) -> dict[str, float]:
    most = max(values.values())
    return {name: 100 * value / most if most else 0.0 for name, value in values.items()}


def _emptiness(wanted: Amounts, node: NodeState) -> float:
    shares = [
        max(0, node.free.get(name, 0) - wanted.get(name, 0)) / node.capacity[name]
        for name in ("cpu", "memory")
        if node.capacity.get(name)
    ]
    return 100 * sum(shares) / len(shares) if shares else 0.0


def _first(name: str) -> tuple[int, ...]:
    """So that of equal nodes the one whose name comes first wins."""
    return tuple(-ord(letter) for letter in name)
