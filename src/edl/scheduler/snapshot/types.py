"""The snapshot: everything a plan may know, as plain values without behaviour. `builder` makes it, the rest reads it.

Nodes, jobs and pending pods are sorted by name, so that the order in which a cluster lists its objects means nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from edl.scheduler.placement.resources import Axes, Vector
from edl.throughput.model import JobModel

State = Literal["active", "suspended", "finished", "deleting", "invalid"]
Charges = tuple[tuple[int, int], ...]  # of ResourceQuotas: (index of the quota line, amount)

NOWHERE = -1  # no node, or one that the snapshot does not have


class Rule(msgspec.Struct, frozen=True):
    """A constraint between the pods of a shape and others, by the domains of one topology."""

    kind: Literal["anti-affinity", "affinity", "spread"]
    counter: int
    skew: int = 1
    counts_itself: bool = False


class Shape(msgspec.Struct, frozen=True, eq=False, gc=False):
    """All that placing one pod depends on. Pods of one shape are interchangeable; there are few shapes and many
    pods.
    """

    index: int
    requests: Vector
    needs: tuple[tuple[int, int], ...]
    """The axes of `requests` that are not zero, with their amounts."""
    limits: tuple[int, int]
    """CPU and memory limits, requests where there are none."""
    node_match: int
    """Index of the `NodeMatch` that says which nodes it may use."""
    gpus: int = 0
    priority: int = 0
    """Kubernetes' priority of the pods, which decides who may be moved for whom."""
    rules: tuple[Rule, ...] = ()
    counted: tuple[int, ...] = ()
    """Counters that a pod of this shape adds to."""
    key: str = ""
    """The same for the same shape in every snapshot: what back-off remembers."""


class NodeFacts(msgspec.Struct, frozen=True, eq=False, gc=False):
    name: str
    capacity: Vector
    used: Vector
    """Requests of every pod that is bound, nominated or terminating here."""
    kind: int
    """Class of nodes that no `NodeMatch` of the snapshot tells apart."""
    free: Vector
    gpu: bool = False
    refusal: str = ""
    """Why nothing new can go here (not ready, cordoned), or nothing."""


class TerminatingPod(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A terminating pod: it occupies its node until it is gone, which is soon unless it is stuck."""

    node: int
    requests: Vector
    limits: tuple[int, int]
    until: float
    charges: Charges = ()


class UnboundPod(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod of a job that has no node yet. `hint` is the node that its plan chose for it."""

    hint: int = NOWHERE
    refused_since: float | None = None
    """When kube-scheduler first said Unschedulable."""


class RoleFacts(msgspec.Struct, frozen=True, eq=False, gc=False):
    name: str
    shape: Shape
    charges: Charges = ()
    """What one pod takes of the quotas of its namespace."""
    problem: str = ""
    """Why the API server would refuse such a pod (LimitRange, quota that wants limits), or nothing."""
    given: Shape | None = None
    """What its live pods give back, if they were made from another template."""

    @property
    def returned(self) -> Shape:
        return self.given or self.shape


class JobFacts(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """A job, as a plan sees it. Fields that `JobView` has too bear the same names."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str = ""
    state: State = "active"
    note: str = ""
    """Explains a state that is not active."""

    priority: int = 1000
    min: int = 0
    max: int = 0
    start: int = 0
    sizes: tuple[int, ...] = ()
    max_name: str = "max-instance"
    roles: tuple[RoleFacts, ...] = ()
    lead: int = 0
    """Index of the role that the size counts."""
    pods_at: Callable[[int], tuple[int, ...]] = lambda size: (size,)
    """Pods of every role at a size."""
    roles_at: Callable[[int], Mapping[str, int]] = lambda size: {}
    """The same by name."""
    gpu: bool = False
    """Some of its pods ask for GPUs."""
    fixed: str = ""
    """Why min and max are one though the user wrote more, or nothing."""
    pause: bool = False
    pin: bool = False
    admission: str = "hold"
    """`create`: pods of a waiting job are made at once, so that a cluster autoscaler sees them."""
    freezing_window: float | None = None
    rescale_seconds: float | None = None
    model: JobModel | None = None
    """How fast it is at which size, as far as that is known."""
    created: float = 0.0
    last_scale_time: float | None = None
    edit: str = ""
    """Names the last edit of its sizes that no freezing window holds up."""
    request: str = ""
    """The annotation in which a user asks for a size, or for the end of a hold."""
    obeyed: str = ""
    """The last request that was obeyed, as status records it."""
    held: tuple[int, float] | None = None
    """A size that its user asked for and until when it is held, as status records it."""
    started: bool = False
    """It has run before, if only with the pods that come before its plan."""
    reached: bool = False
    """It has run at its minimum before, and keeps that."""

    generation: int = 0
    refusal: str = ""
    """Why the API server refuses pods of it, or other objects without which it has none."""
    refused_since: float = 0.0

    current: int = 0
    target: int | None = None
    """The target of the last plan, as status records it; None before the first."""
    minimum: int | None = None
    """The minimum in force, as status records it."""
    granted: Mapping[str, int] | None = None
    """Pods of the other roles that were granted, as status records it; None if it does not."""
    in_force: Mapping[str, int] | None = None
    """Of these, as many as the minimum in force has, if fewer."""
    bound: tuple[Mapping[int, int], ...] = ()
    """Per role: node to number of live pods there."""
    live: tuple[int, ...] = ()
    """Per role: how many these are."""
    unbound: tuple[tuple[UnboundPod, ...], ...] = ()
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


class ForeignPod(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod of others (no job of ours) that has no node yet."""

    namespace: str
    name: str
    uid: str
    owner: str
    shape: Shape
    created: float = 0.0
    refused: bool = False
    """kube-scheduler has said Unschedulable."""


class QuotaLine(msgspec.Struct, frozen=True, eq=False, gc=False):
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
    """Per `NodeMatch`: the classes of nodes it allows."""
    excluded: tuple[str, ...]
    """Per `NodeMatch`: the commonest reason why nodes are excluded."""
    terminating: tuple[TerminatingPod, ...] = ()
    quota_lines: tuple[QuotaLine, ...] = ()
    counters: tuple[Counter, ...] = ()
    committed: tuple[int, int] = (0, 0)
    """CPU and memory limits of the pods on usable nodes."""
    bound_foreign: frozenset[str] = frozenset()
    """Uids of foreign pods that have a node."""
    problems: tuple[str, ...] = ()
