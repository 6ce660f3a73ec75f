"""Shapes and placements of a snapshot, each kept once: pods that are the same to the board share one shape."""

import hashlib

import msgspec

from edl.scheduler.facts import Rule, Shape
from edl.scheduler.resources import PODS, Amounts, Axes
from edl.scheduler.where import Where


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
    asked = ",".join(f"{name}={units}" for name, units in sorted(requests.items()) if units and name != PODS)
    if where == Where():
        return asked
    return asked + "@" + hashlib.blake2b(msgspec.json.encode(where), digest_size=6).hexdigest()
