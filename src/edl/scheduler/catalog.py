"""Shapes and placements of a snapshot, each kept once: pods that are the same to the board share one shape."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from edl.api.core import Taint
from edl.scheduler.facts import Rule, Shape
from edl.scheduler.resources import Amounts, Axes
from edl.scheduler.where import Where

_Taints = tuple[Taint, ...]


class Catalog:
    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.wheres: dict[Where, int] = {}
        self._shapes: dict[object, Shape] = {}

    def shape(
        self,
        requests: Amounts,
        limits: tuple[int, int],
        where: Where,
        priority: int,
        rules: tuple[Rule, ...] = (),
        counted: tuple[int, ...] = (),
    ) -> Shape:
        vector = self.axes.vector(requests)
        place = self.wheres.setdefault(where, len(self.wheres))
        key = vector, limits, place, priority, rules, counted
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(
                index=len(self._shapes),
                requests=vector,
                needs=tuple((axis, units) for axis, units in enumerate(vector) if units),
                limits=limits,
                where=place,
                gpus=self.axes.gpu_count(vector),
                priority=priority,
                rules=rules,
                counted=counted,
                key=_key(requests, where),
            )
        return shape


def _key(requests: Amounts, where: Where) -> str:
    """The same in every snapshot, whatever its axes."""
    asked = ",".join(f"{name}={units}" for name, units in sorted(requests.items()) if units and name != "pods")
    if where == Where():
        return asked
    return asked + "@" + hashlib.blake2b(msgspec.json.encode(where), digest_size=6).hexdigest()


class NodeClasses:
    """Nodes that no placement of the catalog can tell apart."""

    def __init__(self, wheres: Iterable[Where]) -> None:
        self.wheres = tuple(wheres)
        self._keys = sorted(set().union(*(where.keys() for where in self.wheres)))
        self._by_name = any(where.asks_names() for where in self.wheres)
        self._classes: dict[object, int] = {}
        self._samples: list[tuple[str, Mapping[str, str], _Taints]] = []
        self._sizes: list[int] = []

    def of(self, name: str, labels: Mapping[str, str], taints: _Taints) -> int:
        values = tuple([labels.get(key) for key in self._keys])
        key = values, taints, name if self._by_name else ""
        place = self._classes.setdefault(key, len(self._classes))
        if place == len(self._samples):
            self._samples.append((name, labels, taints))
            self._sizes.append(0)
        self._sizes[place] += 1
        return place

    def judge(self) -> tuple[tuple[tuple[bool, ...], ...], tuple[str, ...]]:
        """Per placement: which classes it allows, and the commonest reason against the others."""
        allowed, excluded = [], []
        for where in self.wheres:
            refusals = [where.refusal(*sample) for sample in self._samples]
            allowed.append(tuple(refusal is None for refusal in refusals))
            votes: dict[str, int] = {}
            for refusal, size in zip(refusals, self._sizes, strict=True):
                if refusal is not None:
                    votes[refusal] = votes.get(refusal, 0) + size
            excluded.append(max(votes, key=lambda reason: (votes[reason], reason), default=""))
        return tuple(allowed), tuple(excluded)
