"""Finds a node for a pod without checking every node for every pod. All the speed of the scheduler is here.

For each shape the nodes that can take it are listed once, in the order of preference, and kept as a heap. In a dry
run capacity mostly shrinks, so a node at the top that no longer fits is dropped for good; a node that gains capacity
is noted in `gained` and checked again by every heap. Both ways of making the list, plain and with numpy, give the
same one.

Instances fill the fullest nodes first, so that large holes stay whole. The pods beside them (masters, parameter
servers) go where they cost no instance its capacity, fullest first; else as few as may be, emptiest first, where
more of them will fit at no further cost. What needs no GPU goes to nodes without GPUs if it can.
"""

import heapq
from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edl.scheduler.placement.resources import CEILING, Vector
from edl.scheduler.snapshot.types import NOWHERE, Shape

if TYPE_CHECKING:
    from edl.scheduler.placement.cluster_state import ClusterState

Matrix = npt.NDArray[np.int64]
PLAIN_UP_TO = 96  # nodes; below this numpy costs more than it saves
_BITS = 21  # a key is one integer: has GPUs, instances displaced, rank; the rank gives the node
_MASK = (1 << _BITS) - 1


class Ranking:
    """Nodes in one order: the rank of each, and the node of each rank."""

    __slots__ = ("array", "order", "ranks")

    def __init__(self, order: list[int]) -> None:
        self.order = order
        self.ranks = [0] * len(order)
        for rank, node in enumerate(order):
            self.ranks[node] = rank
        self.array: Matrix | None = None

    def as_array(self) -> Matrix:
        if self.array is None:
            self.array = np.array(self.ranks, dtype=np.int64)
        return self.array


class NodeIndex:
    def __init__(self, cluster: "ClusterState") -> None:
        self.cluster = cluster
        self.gained: list[int] = []
        self.touched: set[int] = set()
        """Nodes that have changed since the arrays were made."""
        self.plain = len(cluster.free_now) <= PLAIN_UP_TO
        self._heaps: dict[tuple[int, bool, int], CandidateHeap] = {}
        self._rankings: tuple[Ranking, Ranking] | None = None
        self._matrices: tuple[Matrix, Matrix] | None = None
        self._kinds = self._gpu = np.zeros(0, dtype=np.int64)

    def find(self, shape: Shape, now: bool, guard: Shape | None) -> int:
        key = (shape.index, now, NOWHERE if guard is None else guard.index)
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = CandidateHeap(self, shape, now, guard)
        return heap.scan() if shape.rules else heap.best()

    def ranking(self, tightest_first: bool) -> Ranking:
        """As the nodes were when one was first asked for."""
        if self._rankings is None:
            order = self._plain_order if self.plain else self._quick_order
            self._rankings = Ranking(order(False)), Ranking(order(True))
        return self._rankings[tightest_first]

    def _plain_order(self, tightest_first: bool) -> list[int]:
        gpus, sign = self.cluster.axes.gpus, 1 if tightest_first else -1
        keys = [(sum([row[axis] for axis in gpus]), sign * row[0], sign * row[1]) for row in self.cluster.free_later]
        return sorted(range(len(keys)), key=lambda node: (keys[node], node))

    def _quick_order(self, tightest_first: bool) -> list[int]:
        later, sign = self._arrays()[1], 1 if tightest_first else -1
        gpus = sum((later[axis] for axis in self.cluster.axes.gpus), start=np.zeros(later.shape[1], dtype=np.int64))
        order: list[int] = np.lexsort((sign * later[1], sign * later[0], gpus)).tolist()
        return order

    def keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        """Sorted keys of the nodes that may and can take a pod of the shape."""
        if self.plain:
            return self.plain_keys(shape, now, guard)
        return self.quick_keys(shape, now, guard)

    def plain_keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        fits = self.cluster.fits
        fitting = [node for node in self.cluster.allowed_nodes(shape.node_match) if fits(node, shape, now)]
        return sorted([self.key(node, shape, guard) for node in fitting])

    def key(self, node: int, shape: Shape, guard: Shape | None) -> int:
        gpu = not shape.gpus and self.cluster.snapshot.nodes[node].gpu
        displaced = 0 if guard is None else self._displaced(self.cluster.free_later[node], shape, guard)
        rank = self.ranking(displaced == 0).ranks[node]
        return ((gpu << _BITS) + min(displaced, _MASK) << _BITS) + rank

    def node_of(self, key: int) -> int:
        displaced = key >> _BITS & _MASK
        return self.ranking(displaced == 0).order[key & _MASK]

    @staticmethod
    def _displaced(row: Vector, shape: Shape, guard: Shape) -> int:
        """Instances of the guarded shape that fit before and would not fit after."""
        before = after = CEILING
        for axis, amount in guard.needs:
            before = min(before, row[axis] // amount)
            after = min(after, (row[axis] - shape.requests[axis]) // amount)
        return max(before, 0) - max(after, 0)

    def quick_keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        """The same with numpy, but for the nodes that have been touched since the arrays were made."""
        matrices = self._arrays()
        mask = np.asarray(self.cluster.snapshot.allowed[shape.node_match], dtype=bool)[self._kinds] & (self._kinds >= 0)
        for matrix in matrices if now else matrices[1:]:
            for axis, amount in shape.needs:
                mask &= matrix[axis] >= amount
        nodes = np.flatnonzero(mask)
        keys = self.ranking(True).as_array()[nodes]
        if guard is not None:
            displaced = np.minimum(self._quick_displaced(nodes, shape, guard), _MASK)
            keys = np.where(displaced == 0, keys, self.ranking(False).as_array()[nodes]) + (displaced << _BITS)
        if not shape.gpus:
            keys = keys + (self._gpu[nodes] << 2 * _BITS)
        found: list[int] = np.sort(keys).tolist()
        return found if not self.touched else self._with_touched(found, shape, now, guard)

    def _with_touched(self, keys: list[int], shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        cluster, touched = self.cluster, self.touched
        untouched = [key for key in keys if self.node_of(key) not in touched]
        fitting = [node for node in touched if cluster.allowed(node, shape) and cluster.fits(node, shape, now)]
        return sorted(untouched + [self.key(node, shape, guard) for node in fitting])

    def _quick_displaced(self, nodes: Matrix, shape: Shape, guard: Shape) -> Matrix:
        before = after = np.full(len(nodes), CEILING, dtype=np.int64)
        for axis, amount in guard.needs:
            row = self._arrays()[1][axis][nodes]
            before = np.minimum(before, row // amount)
            after = np.minimum(after, (row - shape.requests[axis]) // amount)
        displaced: Matrix = np.maximum(before, 0) - np.maximum(after, 0)
        return displaced

    def _arrays(self) -> tuple[Matrix, Matrix]:
        if self._matrices is None:
            cluster = self.cluster
            width = len(cluster.axes.names)
            later = as_matrix(cluster.free_later, width)
            same = all(map(is_, cluster.free_now, cluster.free_later))  # as long as nothing terminates or leaves
            self._matrices = later if same else as_matrix(cluster.free_now, width), later
            nodes = cluster.snapshot.nodes
            self._kinds = np.array([NOWHERE if node.refusal else node.kind for node in nodes], dtype=np.int64)
            self._gpu = np.array([node.gpu for node in nodes], dtype=np.int64)
            self.touched.clear()
        return self._matrices


def as_matrix(rows: Sequence[Sequence[int]], width: int) -> Matrix:
    """One row per resource. Clipped where needed: sums beyond any real machine must not wrap around."""
    if not rows:
        return np.zeros((width, 0), dtype=np.int64)
    try:
        matrix = np.array(rows, dtype=np.int64)
    except OverflowError:
        clipped = [[max(-CEILING, min(CEILING, value)) for value in row] for row in rows]
        matrix = np.array(clipped, dtype=np.int64)
    return matrix.T.copy()


class CandidateHeap:
    """The candidates of one shape, best first."""

    __slots__ = ("guard", "index", "keys", "nodes", "now", "seen", "shape")

    def __init__(self, index: NodeIndex, shape: Shape, now: bool, guard: Shape | None) -> None:
        self.index = index
        self.shape = shape
        self.now = now
        self.guard = guard
        self.nodes: list[int] = []
        self.keys: list[int] = []
        if shape.rules:
            self.nodes = index.cluster.allowed_nodes(shape.node_match)
        else:
            self.keys = index.keys(shape, now, guard)
        self.seen = len(index.gained)

    def best(self) -> int:
        """The top that still fits. A key that has changed is replaced first, so the top is really the top."""
        index, shape, now, guard = self.index, self.shape, self.now, self.guard
        if self.seen != len(index.gained):
            self._refresh()
        keys, fits = self.keys, index.cluster.fits
        while keys:
            key = keys[0]
            node = index.node_of(key)
            if not fits(node, shape, now):
                heapq.heappop(keys)
            elif guard is None or (fresh := index.key(node, shape, guard)) == key:
                return node
            else:
                heapq.heapreplace(keys, fresh)
        return NOWHERE

    def _refresh(self) -> None:
        index, cluster = self.index, self.index.cluster
        for node in set(index.gained[self.seen :]):
            if cluster.allowed(node, self.shape) and cluster.fits(node, self.shape, self.now):
                heapq.heappush(self.keys, index.key(node, self.shape, self.guard))
        self.seen = len(index.gained)

    def scan(self) -> int:
        """With rules between pods a node may become fit by what happens elsewhere: checks all of them."""
        fits, index = self.index.cluster.fits, self.index
        fitting = [node for node in self.nodes if fits(node, self.shape, self.now)]
        return min(fitting, key=lambda node: index.key(node, self.shape, self.guard), default=NOWHERE)
