"""The nodes of a snapshot. Each version of a node is read once and kept; facts are renewed where something changed."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from edl.api.kubernetes.core import Node, Taint
from edl.scheduler.placement.node_match import NodeMatch
from edl.scheduler.placement.resources import DEFAULT_PODS_PER_NODE, PODS, Axes, Vector, amounts
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import NodeFacts
from edl.scheduler.snapshot.usage import NodeUsage
from edl.scheduler.snapshot.versions import Versions


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


class _Read(msgspec.Struct, eq=False, gc=False):
    capacity: Vector
    kind: int
    gpu: bool
    refusal: str


class NodeCache:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """Sorted by name; `names` is the same tuple as long as the names are the same."""
        self.names: tuple[str, ...] = ()
        self.usable: list[bool] = []
        self._versions: Versions[Node] = Versions(lambda node: node.metadata.name)
        self._positions: dict[str, int] = {}
        self._stale: set[int] = set()
        """Positions of nodes that have changed since their facts were made."""
        self._offers: list[frozenset[str]] = []
        self._all_offers: dict[frozenset[str], frozenset[str]] = {}
        self._classes = NodeClasses(())
        self._made_of: tuple[tuple[str, ...], Axes] | None = None
        self._reads: list[_Read] = []
        self._facts: list[NodeFacts] = []
        self._matched: tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]] = (), ()

    def take(self, nodes: Sequence[Node]) -> None:
        """The nodes that there are now."""
        gone, new = self._versions.update(nodes)
        if {node.metadata.name for node in gone} != {node.metadata.name for node in new}:
            self.nodes = sorted(self._versions, key=lambda node: node.metadata.name)
            self.names = tuple(node.metadata.name for node in self.nodes)
            self._positions = {name: position for position, name in enumerate(self.names)}
            self._offers = [self._offer(node) for node in self.nodes]
            return
        for node in new:
            position = self._positions[node.metadata.name]
            self.nodes[position], self._offers[position] = node, self._offer(node)
            self._stale.add(position)

    def _offer(self, node: Node) -> frozenset[str]:
        """One object for all nodes that offer the same."""
        offer = frozenset(node.status.allocatable or node.status.capacity)
        return self._all_offers.setdefault(offer, offer)

    def offered(self) -> frozenset[str]:
        """Names of the resources that some node has."""
        return frozenset[str]().union(*set(self._offers))

    def all(self, usage: NodeUsage, recounted: Iterable[int], catalog: Catalog) -> tuple[NodeFacts, ...]:
        """`recounted`: nodes whose pods have changed."""
        node_matches = tuple(catalog.node_matches)
        known = self._made_of
        same = known is not None and known[0] is self.names and known[1] is catalog.axes
        if not same or node_matches != self._classes.node_matches:
            self._made_of, self._classes = (self.names, catalog.axes), NodeClasses(node_matches)
            self._reads = [self._read(node, catalog.axes) for node in self.nodes]
            self.usable = [not read.refusal for read in self._reads]
            self._facts = [self._make(position, used) for position, used in enumerate(usage.used)]
            self._matched = self._classes.match_classes(self._facts)
        else:
            self._renew(usage, recounted, catalog.axes)
        self._stale.clear()
        return tuple(self._facts)

    def _renew(self, usage: NodeUsage, recounted: Iterable[int], axes: Axes) -> None:
        for position in self._stale:
            read = self._reads[position] = self._read(self.nodes[position], axes)
            self.usable[position] = not read.refusal
        for position in self._stale.union(recounted):
            if position in self._stale or self._facts[position].used != usage.used[position]:
                self._facts[position] = self._make(position, usage.used[position])
        if self._stale:
            self._matched = self._classes.match_classes(self._facts)

    def match_classes(self) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        return self._matched

    def _read(self, node: Node, axes: Axes) -> _Read:
        have = amounts(node.status.allocatable or node.status.capacity)
        have.setdefault(PODS, DEFAULT_PODS_PER_NODE)
        capacity = axes.vector(have)
        refusal = "is cordoned" if node.spec.unschedulable else ""
        if node.status.conditions and not node.ready:
            refusal = "is not ready"
        return _Read(capacity, self._classes.of(node), axes.gpu_count(capacity) > 0, refusal)

    def _make(self, position: int, used: Vector) -> NodeFacts:
        read = self._reads[position]
        return NodeFacts(
            name=self.names[position],
            capacity=read.capacity,
            used=used,
            kind=read.kind,
            free=tuple([have - taken for have, taken in zip(read.capacity, used, strict=True)]),
            gpu=read.gpu,
            refusal=read.refusal,
        )
