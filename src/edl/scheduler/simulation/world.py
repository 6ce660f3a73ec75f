"""One moment of a simulation as a snapshot, and a plan applied to it: pods come and go at once."""

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping

from edl.scheduler.placement.resources import GPU_NAMES, Axes
from edl.scheduler.plan import Decision
from edl.scheduler.simulation.trace import TraceJob
from edl.scheduler.snapshot.types import ForeignPod, JobFacts, NodeFacts, RoleFacts, Shape, Snapshot
from edl.throughput.model import JobModel, job_model

KIND, API_VERSION = "ElasticJob", "elastic.pytorch.org/v1alpha1"  # what jobs of a trace are taken for
ROLE = "worker"
GPU = GPU_NAMES[0]
AXES = Axes(frozenset({GPU}), frozenset(GPU_NAMES))
CORE, GIB = 1000, 2**30
_WORKER = AXES.vector({"cpu": CORE, "memory": GIB, GPU: 1})
SHAPE = Shape(
    index=0,
    requests=_WORKER,
    needs=tuple((axis, amount) for axis, amount in enumerate(_WORKER) if amount),
    limits=(CORE, GIB),
    node_match=0,
    gpus=1,
    key=ROLE,
)
ROLES = (RoleFacts(ROLE, SHAPE),)
EVEN_SIZES = 16  # up to this every size is in a model, beyond it multiples of four


class SimulatedJob:
    """A job on its way: where its instances are, how much work is left, and until when it pauses."""

    def __init__(self, trace: TraceJob, order: int, *, declares: bool, work_error: float = 0.0) -> None:
        self.trace = trace
        self.misjudges = math.exp(work_error * _deviation(trace.name))
        """How many times the work that it has left it says that it has."""
        self.uid = f"{order:07}"
        self.declares = declares
        self.pods: dict[str, int] = {}
        self.target: int | None = None
        self.left = trace.work
        self.paused_until = 0.0
        self.as_of = trace.submit
        self.started: float | None = None
        self.ended: float | None = None
        self.scaled: float | None = None
        self.changes = 0
        self.served = 0.0
        self.lost = 0.0
        sizes = [size for size in range(1, trace.max + 1) if size <= EVEN_SIZES or size % 4 == 0 or size == trace.max]
        self._sizes, self._rates = sizes, [trace.speed(size) for size in sizes]

    @property
    def size(self) -> int:
        return sum(self.pods.values())

    def advance(self, now: float) -> None:
        """Works, or pauses, until now."""
        size, since = self.size, self.as_of
        self.as_of = now
        if size <= 0:
            return
        self.served += size * (now - since)
        resumes = min(max(since, self.paused_until), now)
        self.lost += size * (resumes - since)
        if size >= self.trace.min:
            self.left = max(0.0, self.left - self.trace.speed(size) * (now - resumes))

    def ends_at(self) -> float | None:
        """If nothing changes."""
        size = self.size
        if size < max(1, self.trace.min):
            return None
        return max(self.as_of, self.paused_until) + self.left / self.trace.speed(size)

    def place(self, pods: dict[str, int], now: float) -> None:
        """Other instances than before cost a pause."""
        if pods == self.pods:
            return
        if self.started is None:
            self.started = now
        else:
            self.changes += 1
        self.pods = pods
        self.paused_until = now + self.trace.pause
        self.scaled = now

    def model(self) -> JobModel | None:
        left = self.left * self.misjudges if self.declares else None
        return job_model(self._sizes, self._rates, explored=self.trace.max, remaining=left)


def _deviation(name: str) -> float:
    """One of nearly normal numbers, always the same for a name: four bytes of a checksum, each even, make it so."""
    even = [byte / 255 for byte in zlib.crc32(name.encode()).to_bytes(4, "big")]
    return (sum(even) - 2.0) * math.sqrt(3.0)


class ForeignPods:
    """Pods of others, of one GPU each: where they are, and how many wait for a place."""

    def __init__(self) -> None:
        self.on: Counter[str] = Counter()
        self.waiting = 0

    def want(self, gpus: int) -> None:
        """So many in all from now on. Those that wait go first, then those on the nodes with the most."""
        have = self.on.total() + self.waiting
        self.waiting += max(0, gpus - have)
        for _ in range(have - gpus):
            if self.waiting:
                self.waiting -= 1
            else:
                self.on.subtract([max(self.on, key=lambda name: (self.on[name], name))])
        self.on = +self.on

    def settle(self, free: Mapping[str, int]) -> bool:
        """Those that wait take what is free; whether any did."""
        before = self.waiting
        for name in sorted(free, key=lambda name: (free[name], name)):
            taken = min(self.waiting, max(0, free[name]))
            self.on[name] += taken
            self.waiting -= taken
        return self.waiting < before

    def pending(self, now: float) -> tuple[ForeignPod, ...]:
        return tuple(
            ForeignPod("others", f"pod-{number:05}", f"others-{number:05}", f"others-{number:05}", SHAPE, now, True)
            for number in range(self.waiting)
        )


def free_gpus(jobs: Iterable[SimulatedJob], nodes: Mapping[str, int], foreign: ForeignPods) -> dict[str, int]:
    used: Counter[str] = Counter(foreign.on)
    for job in jobs:
        used.update(job.pods)
    return {name: gpus - used[name] for name, gpus in nodes.items()}


def snapshot(
    jobs: Iterable[SimulatedJob], nodes: Mapping[str, int], now: float, foreign: ForeignPods | None = None
) -> Snapshot:
    """`nodes`: GPUs by name."""
    names = sorted(nodes)
    position = {name: index for index, name in enumerate(names)}
    jobs = sorted(jobs, key=lambda job: (job.trace.namespace, job.trace.name))
    used: Counter[str] = Counter(foreign.on if foreign is not None else {})
    for job in jobs:
        used.update(job.pods)
    return Snapshot(
        axes=AXES,
        nodes=tuple(_node(name, nodes[name], used[name]) for name in names),
        jobs=tuple(_facts(job, position, now) for job in jobs),
        foreign=foreign.pending(now) if foreign is not None else (),
        allowed=((True,),),
        excluded=("",),
        committed=(used.total() * CORE, used.total() * GIB),
    )


def _node(name: str, gpus: int, used: int) -> NodeFacts:
    capacity = (*(16 * max(gpus, 1) * amount for amount in _WORKER[:-1]), gpus)
    held = tuple(used * amount for amount in _WORKER)
    free = tuple(have - taken for have, taken in zip(capacity, held, strict=True))
    return NodeFacts(name=name, capacity=capacity, used=held, kind=0, free=free, gpu=gpus > 0)


def _facts(job: SimulatedJob, position: Mapping[str, int], now: float) -> JobFacts:
    trace, size = job.trace, job.size
    return JobFacts(
        kind=KIND,
        api_version=API_VERSION,
        namespace=trace.namespace,
        name=trace.name,
        uid=job.uid,
        priority=trace.priority,
        min=trace.min,
        max=trace.max,
        start=trace.min,
        roles=ROLES,
        roles_at=lambda size: {ROLE: size},
        gpu=True,
        rescale_seconds=trace.pause,
        model=job.model(),
        created=trace.submit,
        last_scale_time=job.scaled,
        started=job.started is not None,
        reached=job.started is not None,
        current=size,
        target=job.target,
        minimum=trace.min if job.target else None,
        bound=({position[name]: pods for name, pods in job.pods.items()},),
        live=(size,),
        pod_seconds=job.served,
        running=size,
        started_sum=round(size * now * 1000),
    )


def apply(decision: Decision, job: SimulatedJob, now: float) -> bool:
    """Whether anything of the job has changed."""
    pods = Counter(job.pods)
    pods.subtract(decision.leavers.get(ROLE, {}))
    pods.update(decision.placements.get(ROLE, {}))
    before = job.pods, job.target
    job.target = decision.target or None
    job.place({name: count for name, count in pods.items() if count > 0}, now)
    return (job.pods, job.target) != before
