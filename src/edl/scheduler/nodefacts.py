"""Nodes of the snapshot. What a node offers, and to whom, is read once per version of the node and kept."""

from collections.abc import Mapping, Sequence

import msgspec

from edl.api.core import Node, Taint
from edl.scheduler.catalog import Catalog
from edl.scheduler.facts import NodeFacts
from edl.scheduler.resources import DEFAULT_PODS_PER_NODE, PODS, Axes, Vector, amounts
from edl.scheduler.where import Where


class Classes:
    """Nodes that none of these placements can tell apart are of one class, and judged together."""

    def __init__(self, wheres: tuple[Where, ...]) -> None:
        self.wheres = wheres
        self._keys = sorted(set[str]().union(*(where.keys() for where in wheres)))
        self._by_name = any(where.asks_names() for where in wheres)
        self._known: dict[object, int] = {}
        self._samples: list[tuple[str, Mapping[str, str], tuple[Taint, ...]]] = []

    def of(self, node: Node) -> int:
        labels, taints, name = node.metadata.labels, node.spec.taints, node.metadata.name
        key = tuple([labels.get(key) for key in self._keys]), taints, name if self._by_name else ""
        place = self._known.setdefault(key, len(self._known))
        if place == len(self._samples):
            self._samples.append((name, labels, taints))
        return place

    def judge(self, nodes: Sequence[NodeFacts]) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        """Per placement: which classes it allows, and the commonest reason against the others."""
        sizes = [0] * len(self._samples)
        for node in nodes:
            sizes[node.kind] += 1
        allowed, excluded = [], []
        for where in self.wheres:
            refusals = [where.refusal(*sample) for sample in self._samples]
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
        self._classes = Classes(())
        self._axes: Axes | None = None
        self._known: dict[str, _Read] = {}

    def all(self, nodes: Sequence[Node], used: Sequence[Sequence[int]], catalog: Catalog) -> tuple[NodeFacts, ...]:
        wheres = tuple(catalog.wheres)
        if catalog.axes is not self._axes or wheres != self._classes.wheres:
            self._axes, self._classes = catalog.axes, Classes(wheres)
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

    def judge(self, nodes: Sequence[NodeFacts]) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        return self._classes.judge(nodes)

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
