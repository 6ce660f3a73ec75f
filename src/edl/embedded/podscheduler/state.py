"""Cluster state of one scheduling cycle: nodes with their free capacity, updated by the cycle's own placements."""

from collections.abc import Iterable

from edl.api.kubernetes.core import Node, Pod, Taint
from edl.embedded.pod_requests import Amounts, amounts, minus
from edl.embedded.podscheduler.capacity import requests_of, used_by

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")


class NodeState:
    """`hard` are taints that keep pods away. One that is not ready counts as tainted before anyone tainted it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = node.metadata.name
        self.capacity: Amounts = amounts(node.status.allocatable)
        self.free: Amounts = self.capacity
        self.pods: dict[str, Pod] = {}
        self.hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
        if not node.ready and not any(taint.key.endswith(("/not-ready", "/unreachable")) for taint in self.hard):
            self.hard.append(NOT_READY)

    def add(self, pod: Pod) -> None:
        self.pods[pod.metadata.uid] = pod
        self.free = minus(self.free, used_by(pod) if pod.spec.node_name else requests_of(pod))


class ClusterState:
    """Nodes by name, in the order of their names; every pod that is bound, or about to be, counts on its node."""

    def __init__(self, nodes: Iterable[Node], bound: Iterable[tuple[Pod, str]]) -> None:
        self.nodes = {
            node.metadata.name: NodeState(node) for node in sorted(nodes, key=lambda node: node.metadata.name)
        }
        for pod, name in bound:
            if name in self.nodes and not pod.finished:
                self.nodes[name].add(pod)

    def place(self, pod: Pod, name: str) -> None:
        self.nodes[name].add(pod)
