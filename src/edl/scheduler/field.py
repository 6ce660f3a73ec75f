"""Finding a node for a pod without looking at every node for every pod. All the speed of the scheduler is here.

For each shape the nodes that can take it are listed once, in the order of preference, and kept as a heap. In a dry
run room mostly shrinks, so a node at the top that no longer fits is dropped for good; a node that gains room again
is noted in `grown` and looked at anew by every heap. Both ways of making the list, plain and with numpy, give the
same one.

Instances fill the fullest nodes first, so that large holes stay whole. The pods beside them (masters, parameter
servers) go where they spoil the room of no instance, fullest first; else of as few as may be, emptiest first, where
more of them will find room at no further cost. What needs no GPU goes to nodes without GPUs if it can.
"""

import heapq
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edl.scheduler.facts import NOWHERE, Shape
from edl.scheduler.resources import CEILING

if TYPE_CHECKING:
    from edl.scheduler.board import Board

Matrix = npt.NDArray[np.int64]
PLAIN_UP_TO = 96  # nodes; below this numpy costs more than it saves
_BITS = 21  # a key is one integer: has GPUs, instances spoilt, rank; the rank gives the node
_MASK = (1 << _BITS) - 1


class Ranking:
    """Nodes in one order: the place of each, and who has each place."""

    __slots__ = ("array", "order", "places")

    def __init__(self, order: list[int]) -> None:
        self.order = order
        self.places = [0] * len(order)
        for place, node in enumerate(order):
            self.places[node] = place
        self.array: Matrix | None = None

    def as_array(self) -> Matrix:
        if self.array is None:
            self.array = np.array(self.places, dtype=np.int64)
        return self.array


class Field:
    def __init__(self, board: "Board") -> None:
        self.board = board
        self.grown: list[int] = []
        self.touched: set[int] = set()
        """Nodes that are not any more as the arrays know them."""
        self.plain = len(board.now) <= PLAIN_UP_TO
        self._heaps: dict[tuple[int, bool, int], Heap] = {}
        self._rankings: tuple[Ranking, Ranking] | None = None
        self._matrices: tuple[Matrix, Matrix] | None = None
        self._kinds = self._gpu = np.zeros(0, dtype=np.int64)

    def find(self, shape: Shape, now: bool, guard: Shape | None) -> int:
        key = (shape.index, now, NOWHERE if guard is None else guard.index)
        heap = self._heaps.get(key)
        if heap is None:
            heap = self._heaps[key] = Heap(self, shape, now, guard)
        return heap.scan() if shape.rules else heap.best()

    def ranking(self, tightest_first: bool) -> Ranking:
        """As the nodes stood when one was first asked for."""
        if self._rankings is None:
            order = self._plain_order if self.plain else self._quick_order
            self._rankings = Ranking(order(False)), Ranking(order(True))
        return self._rankings[tightest_first]

    def _plain_order(self, tightest_first: bool) -> list[int]:
        gpus, sign = self.board.axes.gpus, 1 if tightest_first else -1
        keys = [(sum([row[place] for place in gpus]), sign * row[0], sign * row[1]) for row in self.board.later]
        return sorted(range(len(keys)), key=lambda node: (keys[node], node))

    def _quick_order(self, tightest_first: bool) -> list[int]:
        later, sign = self._arrays()[1], 1 if tightest_first else -1
        gpus = sum((later[place] for place in self.board.axes.gpus), start=np.zeros(later.shape[1], dtype=np.int64))
        order: list[int] = np.lexsort((sign * later[1], sign * later[0], gpus)).tolist()
        return order

    def keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        """Sorted keys of the nodes that may and can take a pod of the shape."""
        if self.plain:
            return self.plain_keys(shape, now, guard)
        return self.quick_keys(shape, now, guard)

    def plain_keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        fits = self.board.fits
        fitting = [node for node in self.board.allowed_nodes(shape.where) if fits(node, shape, now)]
        return sorted([self.key(node, shape, guard) for node in fitting])

    def key(self, node: int, shape: Shape, guard: Shape | None) -> int:
        gpu = not shape.gpus and self.board.snapshot.nodes[node].gpu
        spoilt = 0 if guard is None else self._spoilt(self.board.later[node], shape, guard)
        place = self.ranking(spoilt == 0).places[node]
        return ((gpu << _BITS) + min(spoilt, _MASK) << _BITS) + place

    def node_of(self, key: int) -> int:
        spoilt = key >> _BITS & _MASK
        return self.ranking(spoilt == 0).order[key & _MASK]

    @staticmethod
    def _spoilt(row: list[int], shape: Shape, guard: Shape) -> int:
        """Instances of the guarded shape that fit before and would not fit after."""
        before = after = CEILING
        for place, amount in guard.needs:
            before = min(before, row[place] // amount)
            after = min(after, (row[place] - shape.requests[place]) // amount)
        return max(before, 0) - max(after, 0)

    def quick_keys(self, shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        """The same with numpy, but for the nodes that have been touched since the arrays were made."""
        matrices = self._arrays()
        mask = np.asarray(self.board.snapshot.allowed[shape.where], dtype=bool)[self._kinds] & (self._kinds >= 0)
        for matrix in matrices if now else matrices[1:]:
            for place, amount in shape.needs:
                mask &= matrix[place] >= amount
        nodes = np.flatnonzero(mask)
        keys = self.ranking(True).as_array()[nodes]
        if guard is not None:
            spoilt = np.minimum(self._quick_spoilt(nodes, shape, guard), _MASK)
            keys = np.where(spoilt == 0, keys, self.ranking(False).as_array()[nodes]) + (spoilt << _BITS)
        if not shape.gpus:
            keys = keys + (self._gpu[nodes] << 2 * _BITS)
        found: list[int] = np.sort(keys).tolist()
        return found if not self.touched else self._put_right(found, shape, now, guard)

    def _put_right(self, keys: list[int], shape: Shape, now: bool, guard: Shape | None) -> list[int]:
        board, touched = self.board, self.touched
        untouched = [key for key in keys if self.node_of(key) not in touched]
        fitting = [node for node in touched if board.allowed(node, shape) and board.fits(node, shape, now)]
        return sorted(untouched + [self.key(node, shape, guard) for node in fitting])

    def _quick_spoilt(self, nodes: Matrix, shape: Shape, guard: Shape) -> Matrix:
        before = after = np.full(len(nodes), CEILING, dtype=np.int64)
        for place, amount in guard.needs:
            row = self._arrays()[1][place][nodes]
            before = np.minimum(before, row // amount)
            after = np.minimum(after, (row - shape.requests[place]) // amount)
        spoilt: Matrix = np.maximum(before, 0) - np.maximum(after, 0)
        return spoilt

    def _arrays(self) -> tuple[Matrix, Matrix]:
        if self._matrices is None:
            board = self.board
            width = len(board.axes.names)
            self._matrices = as_matrix(board.now, width), as_matrix(board.later, width)
            nodes = board.snapshot.nodes
            self._kinds = np.array([NOWHERE if node.refusal else node.kind for node in nodes], dtype=np.int64)
            self._gpu = np.array([node.gpu for node in nodes], dtype=np.int64)
            self.touched.clear()
        return self._matrices


def as_matrix(rows: list[list[int]], width: int) -> Matrix:
    """One row per resource. Clipped where needed: sums beyond any real machine must not wrap around."""
    if not rows:
        return np.zeros((width, 0), dtype=np.int64)
    try:
        matrix = np.array(rows, dtype=np.int64)
    except OverflowError:
        clipped = [[max(-CEILING, min(CEILING, value)) for value in row] for row in rows]
        matrix = np.array(clipped, dtype=np.int64)
    return matrix.T.copy()


class Heap:
    """The candidates of one shape, best first."""

    __slots__ = ("field", "guard", "keys", "nodes", "now", "seen", "shape")

    def __init__(self, field: Field, shape: Shape, now: bool, guard: Shape | None) -> None:
        self.field = field
        self.shape = shape
        self.now = now
        self.guard = guard
        self.nodes: list[int] = []
        self.keys: list[int] = []
        if shape.rules:
            self.nodes = field.board.allowed_nodes(shape.where)
        else:
            self.keys = field.keys(shape, now, guard)
        self.seen = len(field.grown)

    def best(self) -> int:
        """The top that still fits. A key that has changed is put right first, so the top is really the top."""
        field, shape, now, guard = self.field, self.shape, self.now, self.guard
        if self.seen != len(field.grown):
            self._look_again()
        keys, fits = self.keys, field.board.fits
        while keys:
            key = keys[0]
            node = field.node_of(key)
            if not fits(node, shape, now):
                heapq.heappop(keys)
            elif guard is None or (fresh := field.key(node, shape, guard)) == key:
                return node
            else:
                heapq.heapreplace(keys, fresh)
        return NOWHERE

    def _look_again(self) -> None:
        field, board = self.field, self.field.board
        for node in set(field.grown[self.seen :]):
            if board.allowed(node, self.shape) and board.fits(node, self.shape, self.now):
                heapq.heappush(self.keys, field.key(node, self.shape, self.guard))
        self.seen = len(field.grown)

    def scan(self) -> int:
        """With rules between pods a node may become fit by what happens elsewhere: look at all of them."""
        fits, field = self.field.board.fits, self.field
        fitting = [node for node in self.nodes if fits(node, self.shape, self.now)]
        return min(fitting, key=lambda node: field.key(node, self.shape, self.guard), default=NOWHERE)
