"""Answers of the page's API, as types: the server encodes them, and the OpenAPI document is made from them.

Times are seconds since 1970. Resources are in the order CPU (cores), memory (bytes), GPU (devices). What nobody knows
is null, never zero.
"""

import msgspec

Amounts = tuple[float, float, float]
"""CPU in cores, memory in bytes, GPUs."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all of them."""


class SessionInfo(Answer, frozen=True):
    """Who looks, and what may be seen. `namespaces` is null for a viewer who may see all of them."""

    user: str
    version: str
    cluster: bool
    namespaces: list[str] | None
    actions: bool
    recorded: str = ""
    """What recording is shown, in place of a cluster; empty: it is a cluster."""


class Login(Answer, frozen=True):
    """A one-time code of `edl ui`, or a bearer token of the cluster."""

    code: str = ""
    token: str = ""


class LoginDone(Answer, frozen=True):
    """The session is sent in the header EDL-Token from now on."""

    session: str


class Code(Answer, frozen=True):
    """Good for one login within so many seconds."""

    code: str
    seconds: float


class JobRow(Answer, frozen=True):
    """One line of the table of jobs. `key` is KIND/NAMESPACE/NAME, its kind being that of the CRD."""

    key: str
    kind: str
    namespace: str
    name: str
    uid: str
    state: str
    """new, waiting, starting, running, changing, paused, suspended, succeeded, failed, deleting or deleted."""
    phase: str
    now: int | None
    target: int | None
    min: int | None
    max: int | None
    code: str
    reason: str
    percent: float | None
    progress: str
    eta: str
    loss: float | None
    throughput: float | None
    priority: str
    created: float | None
    ended: float | None


class Jobs(Answer, frozen=True):
    """`rows` are those that changed and `gone` the keys of those that went; with `reset` they are all there are."""

    reset: bool
    rows: list[JobRow]
    gone: list[str]


class SizeDecision(Answer, frozen=True):
    """One change of size, and why."""

    time: float | None
    before: int
    to: int
    reason: str


class Points(Answer, frozen=True):
    """Series over the same moments, oldest first."""

    time: list[float]
    now: list[int | None]
    target: list[int | None]
    loss: list[float | None]
    throughput: list[float | None]


class RoleCount(Answer, frozen=True):
    role: str
    desired: int
    pending: int
    active: int
    succeeded: int
    failed: int


class ConditionRow(Answer, frozen=True):
    type: str
    status: str
    reason: str
    message: str
    since: float | None


class PodRow(Answer, frozen=True):
    name: str
    role: str
    node: str
    state: str
    ready: bool
    restarts: int
    started: float | None


class EventRow(Answer, frozen=True):
    time: float | None
    type: str
    object: str
    reason: str
    message: str
    count: int


class Advice(Answer, frozen=True):
    """`level` is ok, note or wrong. What is wrong has a fix."""

    level: str
    about: str
    message: str
    fix: str


class Cause(Answer, frozen=True):
    pod: str
    exit_code: int | None
    reason: str
    message: str


class AccountLine(Answer, frozen=True):
    """Instance-seconds of the job that went to one use."""

    use: str
    seconds: float


class JobDetail(Answer, frozen=True):
    """All that the page of one job shows at once; events, logs and manifest are calls of their own.

    `pods` is null for a viewer who may not list them. `missing` says what the page cannot show, and why.
    """

    row: JobRow
    api_version: str
    kind_name: str
    present: bool
    """False: it is deleted, and this is what history kept."""
    decisions: list[SizeDecision]
    points: Points
    roles: list[RoleCount]
    conditions: list[ConditionRow]
    pods: list[PodRow] | None
    more_pods: int
    cause: Cause | None
    advice: list[Advice]
    commands: list[str]
    account: list[AccountLine]
    goodput: float | None
    rescale_seconds: float | None
    scalable: bool
    missing: list[str]


class PastJobs(Answer, frozen=True):
    """Jobs that are over, as history has them; those that are still there are not among them."""

    rows: list[JobRow]


class Events(Answer, frozen=True):
    events: list[EventRow]
    missing: list[str]


class Manifest(Answer, frozen=True):
    """The object as YAML, without the bookkeeping of the API server."""

    yaml: str


class NodeRow(Answer, frozen=True):
    name: str
    state: str
    """ready, not ready or cordoned."""
    capacity: Amounts
    jobs: Amounts
    others: Amounts
    pods: int


class Share(Answer, frozen=True):
    """Of one namespace: what its jobs hold, how many run and wait."""

    namespace: str
    used: Amounts
    running: int
    waiting: int
    note: str = ""
    """Of a recording: how it fared in the time as a whole."""


class Holder(Answer, frozen=True):
    key: str
    used: Amounts


class ClusterSample(Answer, frozen=True):
    """`holders` are the jobs that hold most; `rest` is what the others hold together."""

    time: float
    capacity: Amounts
    others: Amounts
    holders: list[Holder]
    rest: Amounts
    unusable: dict[str, Amounts] = {}
    """Free, wanted by jobs and of no use to them, by the reason: fragmentation, quota, load_cap or freezing."""


class ClusterView(Answer, frozen=True):
    """Of a recording the amounts are means over its time, and `queue` has those that waited longest."""

    capacity: Amounts
    jobs: Amounts
    others: Amounts
    nodes: list[NodeRow]
    more_nodes: int
    queue: list[JobRow]
    """Those that wait, the oldest first."""
    shares: list[Share]
    samples: list[ClusterSample]
    counts: dict[str, int]
    """Jobs by state."""
    missing: list[str]


class PlannedJob(Answer, frozen=True):
    key: str
    namespace: str
    name: str
    current: int
    target: int
    min: int
    max: int
    code: str
    reason: str
    nodes: dict[str, int]


class Coming(Answer, frozen=True):
    """What happens to a job if nobody else arrives: in how long, and in words."""

    wait: str
    job: str
    what: str


class PlanView(Answer, frozen=True):
    """What the scheduler would decide now, and what follows from it if jobs end when their work is done and nobody
    else arrives. Nothing is carried out."""

    policy: str
    policies: list[str]
    jobs: list[PlannedJob]
    unchanged: int
    capacity: Amounts
    used_before: Amounts
    used_after: Amounts
    problems: list[str]
    coming: list[Coming]


class LogLines(Answer, frozen=True):
    """Lines of one pod as they come: time and text. `cut` are bytes of them that were left out."""

    lines: list[tuple[str, str]]
    cut: int = 0
    end: str = ""
    """Why there are no more, on the last one."""


class KeptLogRow(Answer, frozen=True):
    """A log that Brain keeps. `uid` is the job's."""

    pod: str
    uid: str
    bytes: int
    updated: float


class KeptLogs(Answer, frozen=True):
    """In the order in which their pods began."""

    logs: list[KeptLogRow]


class Liveness(Answer, frozen=True):
    """Whether the caches follow the cluster, and if not, why and since how many seconds."""

    live: bool
    why: str
    age: float


class SizeWanted(Answer, frozen=True):
    size: int


class PauseWanted(Answer, frozen=True):
    paused: bool


class Done(Answer, frozen=True):
    message: str


class Refusal(Answer, frozen=True):
    """`code` is stable: unauthorized, forbidden, not-found, bad-request, read-only, unavailable, too-many, internal."""

    error: str
    code: str
