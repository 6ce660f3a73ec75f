"""What should happen to a pod's containers next, given what they do now. Pure: the node carries it out and asks again.

Init containers run one after the other; a sidecar (an init container that restarts always) stays and lets the next one
begin once it has started; then all containers run at once. What ends is restarted as the restart policy says, after a
delay that doubles with every crash. When nothing will run again, or the pod is to end, sidecars leave last, in reverse.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto

from edl.embedded.node.pod import Pod


class Kind(StrEnum):
    INIT = auto()
    SIDECAR = auto()
    MAIN = auto()


class State(StrEnum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    reason: str
    message: str = ""
    started: float = 0.0
    finished: float = 0.0
    container_id: str = ""
    signal: int = 0


@dataclass(slots=True)
class Record:
    """What the node knows of one container. `ended` is how it ended now, `previous` how it did before its last
    restart.
    """

    name: str
    kind: Kind
    state: State = State.WAITING
    container_id: str = ""
    started_at: float = 0.0
    restarts: int = 0
    ended: Ended | None = None
    previous: Ended | None = None
    stopping: bool = False
    started: bool = False
    """Its startup probe has passed, or it has none."""
    ready: bool = False
    problem: tuple[str, str] | None = None
    """Why it cannot be started: reason and message."""
    not_before: float = 0.0
    delay: float = 0.0

    @property
    def next_run(self) -> int:
        """The number of the run that would start now: 0 is the first, then the restarts."""
        return self.restarts + (self.ended is not None)

    @property
    def active(self) -> bool:
        return self.state in (State.STARTING, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Kubernetes' own: at once after the first crash, then 10 s, 20 s... 5 min; anew after 10 minutes of running."""

    base: float = 10.0
    cap: float = 300.0
    reset: float = 600.0


@dataclass(frozen=True, slots=True)
class Plan:
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    wake: float | None = None
    """When to look again even if nothing happens."""
    verdict: str = ""
    """`Succeeded` or `Failed` once no container will run again (some may still be stopping)."""
    quiet: bool = False
    """Nothing runs and nothing is about to."""


@dataclass(slots=True)
class _Wanted:
    start: list[str] = field(default_factory=list)
    wake: float | None = None

    def begin(self, record: Record, now: float) -> None:
        if record.not_before <= now:
            self.start.append(record.name)
        else:
            self.wake = min(record.not_before, self.wake or record.not_before)


def records_of(pod: Pod) -> dict[str, Record]:
    spec = pod.spec
    inits = [Record(one.name, Kind.SIDECAR if one.sidecar else Kind.INIT) for one in spec.init_containers]
    return {record.name: record for record in (*inits, *(Record(one.name, Kind.MAIN) for one in spec.containers))}


def plan(records: Sequence[Record], restart_policy: str, *, ending: bool, now: float) -> Plan:
    """`ending`: the pod was deleted, ran too long, or is otherwise to stop for good."""
    verdict = verdict_of(records, restart_policy)
    quiet = not any(record.active for record in records)
    if ending or verdict:
        return Plan(stop=tuple(_to_stop(records)), verdict=verdict, quiet=quiet)
    wanted = _Wanted()
    if _initialise(records, wanted, now):
        for record in _of(records, Kind.MAIN):
            if record.state is State.WAITING or (record.state is State.ENDED and _restarts(record, restart_policy)):
                wanted.begin(record, now)
    return Plan(start=tuple(wanted.start), wake=wanted.wake, quiet=quiet and not wanted.start and wanted.wake is None)


def verdict_of(records: Sequence[Record], restart_policy: str) -> str:
    if restart_policy == "Never" and any(_failed(record) for record in _of(records, Kind.INIT)):
        return "Failed"
    main = list(_of(records, Kind.MAIN))
    if any(record.state is not State.ENDED or _restarts(record, restart_policy) for record in main):
        return ""
    return "Failed" if any(_failed(record) for record in main) else "Succeeded"


def initialised(records: Iterable[Record]) -> bool:
    """Every init container is done, every sidecar has started."""
    return not incomplete(records)


def incomplete(records: Iterable[Record]) -> list[str]:
    return [record.name for record in records if not _passed(record)]


def _passed(record: Record) -> bool:
    match record.kind:
        case Kind.INIT:
            return record.ended is not None and record.ended.code == 0
        case Kind.SIDECAR:
            return record.started or record.previous is not None
        case _:
            return True


def _initialise(records: Sequence[Record], wanted: _Wanted, now: float) -> bool:
    """Bring the init containers on; True when the others may run."""
    begun = any(record.state is not State.WAITING or record.previous for record in _of(records, Kind.MAIN))
    for record in records:
        if record.kind is Kind.MAIN:
            continue
        if record.kind is Kind.SIDECAR:
            if not record.active:
                wanted.begin(record, now)
            if not record.started and not begun:
                return False
        elif not begun and not (record.state is State.ENDED and not _failed(record)):
            if not record.active:
                wanted.begin(record, now)
            return False
    return True


def _to_stop(records: Sequence[Record]) -> Iterable[str]:
    active = [record for record in records if record.active]
    first = [record for record in active if record.kind is not Kind.SIDECAR]
    if not first:
        first = active[-1:]
    return (record.name for record in first if not record.stopping)


def _restarts(record: Record, restart_policy: str) -> bool:
    return restart_policy == "Always" or (restart_policy == "OnFailure" and _failed(record))


def _failed(record: Record) -> bool:
    return record.state is State.ENDED and record.ended is not None and record.ended.code != 0


def _of(records: Iterable[Record], kind: Kind) -> Iterable[Record]:
    return (record for record in records if record.kind is kind)


# What happened


def note_starting(record: Record) -> None:
    """Under way. It is not a run yet: if it cannot be created, what was said of the last run still holds."""
    record.state, record.problem = State.STARTING, None
    record.started = record.ready = record.stopping = False


def note_running(record: Record, container_id: str, started_at: float) -> None:
    _next_run(record)
    record.state, record.container_id, record.started_at = State.RUNNING, container_id, started_at


def note_problem(record: Record, reason: str, message: str, now: float) -> None:
    """It could not even be created; the next attempt waits a little longer each time."""
    record.state = State.ENDED if record.ended is not None else State.WAITING
    record.problem = (reason, message)
    record.delay = min(30.0, max(1.0, record.delay * 2))
    record.not_before = now + record.delay


def note_ended(record: Record, ended: Ended, backoff: Backoff) -> None:
    if record.state is State.STARTING:
        _next_run(record)
    record.state, record.ended, record.container_id = State.ENDED, ended, ended.container_id
    record.started = record.ready = record.stopping = False
    if ended.finished - ended.started >= backoff.reset:
        record.delay = 0.0
    record.not_before = ended.finished + record.delay
    record.delay = min(backoff.cap, max(backoff.base, record.delay * 2))


def _next_run(record: Record) -> None:
    record.restarts = record.next_run
    if record.ended is not None:
        record.previous, record.ended = record.ended, None
