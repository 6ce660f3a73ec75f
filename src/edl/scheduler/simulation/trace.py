"""The input of a simulation: jobs with their work, and nodes that come and go."""

import bisect

import msgspec


class TraceJob(msgspec.Struct, frozen=True, kw_only=True):
    """`duration`: seconds that it takes at `size`. Speed is the instances to the power of `scaling`, or a curve."""

    name: str
    submit: float
    duration: float
    size: int
    min: int = 1
    max: int = 1
    scaling: float = 0.8
    curve: tuple[tuple[int, float], ...] = ()
    """Speed by size, ascending; straight lines between, constant beyond."""
    pause: float = 30.0
    priority: int = 1000
    namespace: str = "default"

    @property
    def work(self) -> float:
        """Seconds of one instance."""
        return self.duration * self.speed(self.size)

    def speed(self, size: int) -> float:
        if self.curve:
            return _between(self.curve, size)
        return float(size**self.scaling) if size > 0 else 0.0


def _between(curve: tuple[tuple[int, float], ...], size: int) -> float:
    at = bisect.bisect_left(curve, (size, 0.0))
    if size <= 0 or at == len(curve):
        return curve[-1][1] if size > 0 else 0.0
    upper, rate = curve[at]
    lower, below = curve[at - 1] if at else (0, 0.0)
    return below + (rate - below) * (size - lower) / (upper - lower)


class NodeChange(msgspec.Struct, frozen=True):
    """Nodes that are there from this time on, or no more."""

    time: float
    nodes: tuple[str, ...]
    added: bool


class ForeignLoad(msgspec.Struct, frozen=True):
    """Pods of others want so many GPUs from this time on, one each."""

    time: float
    gpus: int


class Trace(msgspec.Struct, frozen=True):
    jobs: tuple[TraceJob, ...]
    nodes: tuple[str, ...]
    gpus: int
    """Per node; an instance takes one."""
    changes: tuple[NodeChange, ...] = ()
    foreign: tuple[ForeignLoad, ...] = ()
