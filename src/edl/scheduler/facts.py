"""The snapshot: everything a plan may know, as plain values without behaviour. Built by `snapshot`, read by the rest.

Nodes, jobs and pending pods are sorted by name, so that the order in which a cluster lists its objects means nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from edl.scheduler.resources import Axes, Vector

State = Literal["active", "suspended", "finished", "deleting", "invalid"]
Taxes = tuple[tuple[int, int], ...]  # (account, amount)

NOWHERE = -1  # the place of pods on nodes that the snapshot does not have


class Rule(msgspec.Struct, frozen=True):
    """How the pods of a shape stand to others in one topology: apart from them, near them, or evenly spread."""

    kind: Literal["apart", "near", "spread"]
    counter: int
    skew: int = 1
    counts_itself: bool = False


class Shape(msgspec.Struct, frozen=True, eq=False):
    """All that placing one pod depends on. Pods of one shape are interchangeable; there are few shapes and many
    pods.
    """

    index: int
    requests: Vector
    needs: tuple[tuple[int, int], ...]
    """The places of `requests` that are not zero, with their amounts."""
    limits: tuple[int, int]
    """CPU and memory limits, requests where there are none."""
    where: int
    gpus: int = 0
    priority: int = 0
    """Kubernetes' priority of the pods, which decides who may be moved for whom."""
    rules: tuple[Rule, ...] = ()
    counted: tuple[int, ...] = ()
    """Counters that a pod of this shape adds to."""
    key: str = ""
    """The same for the same shape in every snapshot: what back-off remembers."""


class NodeFacts(msgspec.Struct, frozen=True, eq=False):
    name: str
    capacity: Vector
    used: Vector
    """Requests of every pod that is bound, nominated or terminating here."""
    kind: int
    """Class of nodes that no constraint of the snapshot tells apart."""
    free: Vector
    gpu: bool = False
    refusal: str = ""
    """Why nothing new can go here (not ready, cordoned), or nothing."""


class Leaving(msgspec.Struct, frozen=True, eq=False):
    """A terminating pod: it occupies its node until it is gone, which is soon unless it is stuck."""

    node: int
    requests: Vector
    limits: tuple[int, int]
    until: float
    taxes: Taxes = ()


class Unbound(msgspec.Struct, frozen=True, eq=False):
    """A pod of a job that has no node yet. `hint` is the node that the plan which made it had in mind."""

    hint: int = NOWHERE
    refused_since: float | None = None
    """When kube-scheduler first said Unschedulable."""


class RoleFacts(msgspec.Struct, frozen=True, eq=False):
    name: str
    shape: Shape
    taxes: Taxes = ()
    """What one pod takes of the accounts of its namespace."""
    problem: str = ""
    """Why the API server would refuse such a pod (LimitRange, quota that wants limits), or nothing."""
    given: Shape | None = None
    """What its live pods give back, if they were made from another template."""

    @property
    def returned(self) -> Shape:
        return self.given or self.shape


class JobFacts(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str = ""
    obj: object = None
    state: State = "active"
    note: str = ""
    """Words for a state that is not active."""

    priority: int = 1000
    min: int = 0
    max: int = 0
    start: int = 0
    sizes: tuple[int, ...] = ()
    max_name: str = "max-instance"
    roles: tuple[RoleFacts, ...] = ()
    scaled: int = 0
    """Which role the size counts."""
    pods_at: Callable[[int], tuple[int, ...]] = lambda size: (size,)
    """Pods of every role at a size."""
    roles_at: Callable[[int], Mapping[str, int]] = lambda size: {}
    """The same by name."""
    gpu: bool = False
    """Some of its pods ask for GPUs."""
    elastic: bool = True
    why_fixed: str = ""
    paused: bool = False
    pinned: bool = False
    create_early: bool = False
    """Pods of a waiting job are made at once, so that a cluster autoscaler sees them."""
    window: float | None = None
    rescale_seconds: float | None = None
    created: float = 0.0
    last_scale: float | None = None
    started: bool = False
    """It has run at its minimum before."""

    current: int = 0
    granted: int | None = None
    """The target of the last plan, as status remembers it."""
    bound: tuple[Mapping[int, int], ...] = ()
    """Per role: node to number of live pods there."""
    live: tuple[int, ...] = ()
    """Per role: how many these are."""
    unbound: tuple[tuple[Unbound, ...], ...] = ()
    """Per role; empty if there are none at all."""
    done: int = 0
    """Instances that have finished and are not coming back."""
    pod_seconds: float = 0.0
    running: int = 0
    started_sum: int = 0
    """Sum of the start times of the instances that run, in milliseconds."""

    @property
    def key(self) -> str:
        return self.uid or f"{self.namespace}/{self.name}/{self.kind}"

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


class ForeignPod(msgspec.Struct, frozen=True, eq=False):
    """A pod of someone else that has no node yet."""

    namespace: str
    name: str
    uid: str
    owner: str
    shape: Shape
    created: float = 0.0
    refused: bool = False
    """kube-scheduler has said Unschedulable."""


class Account(msgspec.Struct, frozen=True, eq=False):
    """One line of a ResourceQuota: so much of one resource for one namespace."""

    namespace: str
    quota: str
    resource: str
    hard: int
    used: int


class Counter(msgspec.Struct, frozen=True, eq=False):
    """Pods per topology domain."""

    domains: tuple[str | None, ...]
    """Per node: its domain, None if it has none."""
    counts: Mapping[str, int]


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    axes: Axes
    nodes: tuple[NodeFacts, ...]
    jobs: tuple[JobFacts, ...]
    foreign: tuple[ForeignPod, ...]
    allowed: tuple[Sequence[bool], ...]
    """Per placement: the classes of nodes it may use."""
    excluded: tuple[str, ...]
    """Per placement: the commonest reason why nodes are out of the question."""
    leaving: tuple[Leaving, ...] = ()
    accounts: tuple[Account, ...] = ()
    counters: tuple[Counter, ...] = ()
    committed: tuple[int, int] = (0, 0)
    """CPU and memory limits of the pods on usable nodes."""
    settled: frozenset[str] = frozenset()
    """Uids of foreign pods that have a node."""
    problems: tuple[str, ...] = ()
