"""The nodes of a snapshot. Each version of a node is read once and kept."""

from collections.abc import Mapping, Sequence

import msgspec

from edl.api.kubernetes.core import Node, Taint
from edl.scheduler.placement.node_match import NodeMatch
from edl.scheduler.placement.resources import DEFAULT_PODS_PER_NODE, PODS, Axes, Vector, amounts
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import NodeFacts


class NodeClasses:
    """Nodes that no `NodeMatch` can tell apart are of one class, and matched together."""

    def __init__(self, node_matches: tuple[NodeMatch, ...]) -> None:
        self.node_matches = node_matches
        self._keys = sorted(set[str]().union(*(node_match.keys() for node_match in node_matches)))
        self._by_name = any(node_match.matches_names() for node_match in node_matches)
        self._known: dict[object, int] = {}
        self._samples: list[tuple[str, Mapping[str, str], tuple[Taint, ...]]] = []

    def of(self, node: Node) -> int:
        labels, taints, name = node.metadata.labels, node.spec.taints, node.metadata.name
        key = tuple([labels.get(key) for key in self._keys]), taints, name if self._by_name else ""
        index = self._known.setdefault(key, len(self._known))
        if index == len(self._samples):
            self._samples.append((name, labels, taints))
        return index

    def match_classes(self, nodes: Sequence[NodeFacts]) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        """Per `NodeMatch`: which classes it allows, and the commonest reason against the others."""
        sizes = [0] * len(self._samples)
        for node in nodes:
            sizes[node.kind] += 1
        allowed, excluded = [], []
        for node_match in self.node_matches:
            refusals = [node_match.refusal(*sample) for sample in self._samples]
            allowed.append(tuple(refusal is None for refusal in refusals))
            votes: dict[str, int] = {}
            for refusal, size in zip(refusals, sizes, strict=True):
                if refusal is not None and size:
                    votes[refusal] = votes.get(refusal, 0) + size
            excluded.append(max(votes, key=lambda reason: (votes[reason], reason), default=""))
        return tuple(allowed), tuple(excluded)


class _Read(msgspec.Struct, eq=False):
    node: Node
    capacity: Vector
    kind: int
    gpu: bool
    refusal: str
    facts: NodeFacts | None = None


class NodeCache:
    def __init__(self) -> None:
        self._classes = NodeClasses(())
        self._axes: Axes | None = None
        self._known: dict[str, _Read] = {}

    def all(self, nodes: Sequence[Node], used: Sequence[Sequence[int]], catalog: Catalog) -> tuple[NodeFacts, ...]:
        node_matches = tuple(catalog.node_matches)
        if catalog.axes is not self._axes or node_matches != self._classes.node_matches:
            self._axes, self._classes = catalog.axes, NodeClasses(node_matches)
            self._known.clear()
        known, self._known = self._known, {}
        found = []
        for node, row in zip(nodes, used, strict=True):
            name = node.metadata.name
            read = known.get(name)
            if read is None or read.node is not node:
                read = self._read(node, catalog.axes)
            self._known[name] = read
            found.append(_facts(read, tuple(row)))
        return tuple(found)

    def match_classes(self, nodes: Sequence[NodeFacts]) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        return self._classes.match_classes(nodes)

    def _read(self, node: Node, axes: Axes) -> _Read:
        have = amounts(node.status.allocatable or node.status.capacity)
        have.setdefault(PODS, DEFAULT_PODS_PER_NODE)
        capacity = axes.vector(have)
        refusal = "is cordoned" if node.spec.unschedulable else ""
        if node.status.conditions and not node.ready:
            refusal = "is not ready"
        return _Read(node, capacity, self._classes.of(node), axes.gpu_count(capacity) > 0, refusal)


def _facts(read: _Read, used: Vector) -> NodeFacts:
    if read.facts is None or read.facts.used != used:
        read.facts = NodeFacts(
            name=read.node.metadata.name,
            capacity=read.capacity,
            used=used,
            kind=read.kind,
            free=tuple([have - taken for have, taken in zip(read.capacity, used, strict=True)]),
            gpu=read.gpu,
            refusal=read.refusal,
        )
    return read.facts
