"""The shapes and node matches of a snapshot, each kept once: pods that are placed alike share one shape."""

import hashlib
from collections.abc import Mapping

import msgspec

from edl.scheduler.placement.node_match import NodeMatch
from edl.scheduler.placement.resources import PODS, Amounts, Axes
from edl.scheduler.snapshot.types import Rule, Shape


class Catalog:
    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.node_matches: dict[NodeMatch, int] = {}
        self._shapes: dict[object, Shape] = {}

    def shape(
        self,
        requests: Mapping[str, int],
        limits: tuple[int, int],
        node_match: NodeMatch,
        priority: int,
        rules: tuple[Rule, ...] = (),
        counted: tuple[int, ...] = (),
    ) -> Shape:
        vector = self.axes.vector(requests)
        index = self.node_matches.setdefault(node_match, len(self.node_matches))
        key = vector, limits, index, priority, rules, counted
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(
                index=len(self._shapes),
                requests=vector,
                needs=tuple((axis, units) for axis, units in enumerate(vector) if units),
                limits=limits,
                node_match=index,
                gpus=self.axes.gpu_count(vector),
                priority=priority,
                rules=rules,
                counted=counted,
                key=_key(dict(zip(self.axes.names, vector, strict=True)), node_match),
            )
        return shape


def _key(requests: Amounts, node_match: NodeMatch) -> str:
    """The same in every snapshot, whatever its axes: these have all that a pod to be placed requests."""
    asked = ",".join(f"{name}={units}" for name, units in sorted(requests.items()) if units and name != PODS)
    if node_match == NodeMatch():
        return asked
    return asked + "@" + hashlib.blake2b(msgspec.json.encode(node_match), digest_size=6).hexdigest()
