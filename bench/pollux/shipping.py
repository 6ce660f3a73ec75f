"""The policies that EDL ships under the rules of the simulation: `edl.scheduler.plan` decides, as in the operator.

Every job is an elastic job of one GPU per worker. A tick is long for the operator, which plans every few seconds: plans
follow each other within a tick until nothing changes, with pods that leave gone at once. What a job is given by the end
of the tick is one change.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.pollux.agent import ModelAgent
from bench.pollux.job import SimulatedJob
from bench.pollux.simulator import GPUS, NODES, Allocations, free_gpus
from msgspec import structs

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Decision, plan
from edl.scheduler.policies.registry import POLICIES
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.world import AXES, CORE, GIB, GPU, ROLE, ROLES, SHAPE
from edl.scheduler.snapshot.types import JobFacts, NodeFacts, Snapshot

PLANS = 8  # within a tick, at most
NCF_BATCH = 32768  # jobs of ncf are pinned to this batch and to one GPU
REMAINING = "+remaining"
"""Ends the name of a policy that is told how much work is left of each job."""


def _vector(cpu: int, memory: int, gpus: int) -> tuple[int, ...]:
    return AXES.vector({"cpu": cpu, "memory": memory, GPU: gpus})


CAPACITY = _vector(16 * GPUS * CORE, 16 * GPUS * GIB, GPUS)


class Shipping:
    def __init__(self, name: str) -> None:
        self.name = name
        self.policy = name.removesuffix(REMAINING)
        self.knows_remaining = name.endswith(REMAINING)
        self.settings = Settings(policy=self.policy, max_load="1")
        self.memory = Memory()
        self.agents: dict[str, ModelAgent] = {}
        self.scaled: dict[str, float] = {}
        """Job: when its size last changed."""

    def submit(self, jobs: Sequence[SimulatedJob]) -> None:
        for job in jobs:
            job.agent = self.agents[job.name] = ModelAgent(job)
            job.batch_size = NCF_BATCH if job.application.name == "ncf" else None

    def decide(self, jobs: Mapping[str, SimulatedJob], allocations: Allocations, now: int) -> Allocations:
        facts = {name: self._facts(job, now) for name, job in jobs.items()}
        after = allocations
        for number in range(PLANS):
            # plans of one tick are moments apart: what is promised in one is there for the next
            moment = now + number / PLANS
            result = plan(self._snapshot(facts, after, moment), self.memory, now=moment, settings=self.settings)
            self.memory = result.memory
            before, after = after, {one.name: _nodes(one, after.get(one.name, [])) for one in result.jobs}
            after = {name: nodes for name, nodes in after.items() if nodes}
            if after == before and not (result.memory.promises or result.memory.relocations):
                break
        for name in after:
            if len(after[name]) != len(allocations.get(name, [])):
                self.scaled[name] = now
        return after

    def _facts(self, job: SimulatedJob, now: int) -> JobFacts:
        agent = self.agents[job.name]
        return JobFacts(
            kind="ElasticJob",
            api_version="elastic.pytorch.org/v1alpha1",
            namespace="default",
            name=job.name,
            uid=job.name,
            min=1,
            max=self._most(job),
            start=1,
            roles=ROLES,
            roles_at=lambda size: {ROLE: size},
            gpu=True,
            freezing_window=0.0,
            rescale_seconds=float(job.pause),
            model=agent.model(job.progress if self.knows_remaining else None),
            created=float(job.submission.time),
            last_scale_time=self.scaled.get(job.name),
            started=job.restarts is not None,
            pod_seconds=float(job.gpu_seconds),
        )

    def _most(self, job: SimulatedJob) -> int:
        """Twice what it has tried, as in the published simulator, and no less than it was ever given."""
        application = job.application
        if application.name == "ncf":
            return 1
        most = min(GPUS * NODES, application.max_batch_size // application.min_local_bsz)
        if POLICIES[self.policy].divides:
            return most  # the policy itself trusts a model to twice what was tried
        return max(min(max(2 * self.agents[job.name].explored, 1), most), job.replicas)

    def _snapshot(self, facts: Mapping[str, JobFacts], allocations: Allocations, now: float) -> Snapshot:
        free = free_gpus(allocations)
        nodes = tuple(_node(number, left) for number, left in enumerate(free))
        jobs = tuple(_with_nodes(facts[name], allocations.get(name, []), now) for name in sorted(facts))
        given = sum(map(len, allocations.values()))
        return Snapshot(
            axes=AXES,
            nodes=nodes,
            jobs=jobs,
            foreign=(),
            allowed=((True,),),
            excluded=("",),
            committed=(given * CORE, given * GIB),
        )


def _node(number: int, free: int) -> NodeFacts:
    used = tuple((GPUS - free) * amount for amount in SHAPE.requests)
    return NodeFacts(
        name=f"node-{number:02}",
        capacity=CAPACITY,
        used=used,
        kind=0,
        free=tuple(have - held for have, held in zip(CAPACITY, used, strict=True)),
        gpu=True,
    )


def _with_nodes(facts: JobFacts, nodes: Sequence[int], now: float) -> JobFacts:
    size = len(nodes)
    if not size and not facts.started:
        return structs.replace(facts, bound=({},), live=(0,))
    return structs.replace(
        facts,
        current=size,
        target=size,
        minimum=1 if size else None,
        bound=(dict(Counter(nodes)),),
        live=(size,),
        running=size,
        started_sum=round(size * now * 1000),
    )


def _nodes(decision: Decision, nodes: Sequence[int]) -> list[int]:
    """The job's nodes after the decision: leavers are gone and new pods are there."""
    held = Counter(nodes)
    for name, count in decision.leavers.get(ROLE, {}).items():
        held[_number(name)] -= count
    for name, count in decision.placements.get(ROLE, {}).items():
        held[_number(name)] += count
    return sorted(held.elements())


def _number(node: str) -> int:
    return int(node.removeprefix("node-"))
