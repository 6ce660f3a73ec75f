"""Decides the next actions on a pod's containers from their records. Pure: the worker acts and asks again.

Init containers run one after the other; a sidecar (an init container that restarts always) stays and lets the next one
begin once it has started; then all containers run at once. What ends is restarted as the restart policy says, after a
delay that doubles with every crash. When nothing will run again, or the pod is to end, sidecars leave last, in reverse.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum, auto

import msgspec

from edl.embedded.node.pod.types import Pod


class ContainerKind(StrEnum):
    INIT = auto()
    SIDECAR = auto()
    MAIN = auto()


class ContainerPhase(StrEnum):
    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDED = auto()


class Termination(msgspec.Struct, frozen=True):
    code: int
    reason: str
    message: str = ""
    started: float = 0.0
    finished: float = 0.0
    container_id: str = ""
    signal: int = 0


class ContainerRecord(msgspec.Struct):
    """State of one container. `ended` describes the end of its current run, `previous` that of the run before."""

    name: str
    kind: ContainerKind
    state: ContainerPhase = ContainerPhase.WAITING
    container_id: str = ""
    started_at: float = 0.0
    restarts: int = 0
    ended: Termination | None = None
    previous: Termination | None = None
    stopping: bool = False
    started: bool = False
    """Its startup probe has passed, or it has none."""
    ready: bool = False
    problem: tuple[str, str] | None = None
    """Reason and message of a start that failed."""
    not_before: float = 0.0
    delay: float = 0.0

    @property
    def next_run(self) -> int:
        """The number of the run that would start now: 0 is the first, then the restarts."""
        return self.restarts + (self.ended is not None)

    @property
    def active(self) -> bool:
        return self.state in (ContainerPhase.STARTING, ContainerPhase.RUNNING)


class Backoff(msgspec.Struct, frozen=True):
    """Kubernetes' own: at once after the first crash, then 10 s, 20 s... 5 min; anew after 10 minutes of running."""

    base: float = 10.0
    cap: float = 300.0
    reset: float = 600.0


class PodActions(msgspec.Struct, frozen=True):
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    requeue_at: float | None = None
    """When to reconcile again even if nothing happens."""
    final_phase: str = ""
    """`Succeeded` or `Failed` once no container will run again (some may still be stopping)."""
    idle: bool = False
    """Nothing runs and nothing is about to."""


class _Starts(msgspec.Struct):
    start: list[str] = msgspec.field(default_factory=list)
    requeue_at: float | None = None

    def begin(self, record: ContainerRecord, now: float) -> None:
        if record.not_before <= now:
            self.start.append(record.name)
        else:
            self.requeue_at = min(record.not_before, self.requeue_at or record.not_before)


def records_of(pod: Pod) -> dict[str, ContainerRecord]:
    spec = pod.spec
    inits = [
        ContainerRecord(one.name, ContainerKind.SIDECAR if one.sidecar else ContainerKind.INIT)
        for one in spec.init_containers
    ]
    return {
        record.name: record
        for record in (*inits, *(ContainerRecord(one.name, ContainerKind.MAIN) for one in spec.containers))
    }


def next_actions(records: Sequence[ContainerRecord], restart_policy: str, *, ending: bool, now: float) -> PodActions:
    """`ending`: the pod was deleted, ran too long, or is otherwise to stop for good."""
    phase = final_phase(records, restart_policy)
    idle = not any(record.active for record in records)
    if ending or phase:
        return PodActions(stop=tuple(_to_stop(records)), final_phase=phase, idle=idle)
    starts = _Starts()
    if _initialise(records, starts, now):
        for record in _of(records, ContainerKind.MAIN):
            if record.state is ContainerPhase.WAITING or (
                record.state is ContainerPhase.ENDED and _restarts(record, restart_policy)
            ):
                starts.begin(record, now)
    return PodActions(
        start=tuple(starts.start),
        requeue_at=starts.requeue_at,
        idle=idle and not starts.start and starts.requeue_at is None,
    )


def final_phase(records: Sequence[ContainerRecord], restart_policy: str) -> str:
    if restart_policy == "Never" and any(_failed(record) for record in _of(records, ContainerKind.INIT)):
        return "Failed"
    main = list(_of(records, ContainerKind.MAIN))
    if any(record.state is not ContainerPhase.ENDED or _restarts(record, restart_policy) for record in main):
        return ""
    return "Failed" if any(_failed(record) for record in main) else "Succeeded"


def initialised(records: Iterable[ContainerRecord]) -> bool:
    """Every init container is done, every sidecar has started."""
    return not incomplete(records)


def incomplete(records: Iterable[ContainerRecord]) -> list[str]:
    return [record.name for record in records if not _passed(record)]


def _passed(record: ContainerRecord) -> bool:
    match record.kind:
        case ContainerKind.INIT:
            return record.ended is not None and record.ended.code == 0
        case ContainerKind.SIDECAR:
            return record.started or record.previous is not None
        case _:
            return True


def _initialise(records: Sequence[ContainerRecord], starts: _Starts, now: float) -> bool:
    """Bring the init containers on; True when the others may run."""
    begun = any(
        record.state is not ContainerPhase.WAITING or record.previous for record in _of(records, ContainerKind.MAIN)
    )
    for record in records:
        if record.kind is ContainerKind.MAIN:
            continue
        if record.kind is ContainerKind.SIDECAR:
            if not record.active:
                starts.begin(record, now)
            if not record.started and not begun:
                return False
        elif not begun and not (record.state is ContainerPhase.ENDED and not _failed(record)):
            if not record.active:
                starts.begin(record, now)
            return False
    return True


def _to_stop(records: Sequence[ContainerRecord]) -> Iterable[str]:
    active = [record for record in records if record.active]
    first = [record for record in active if record.kind is not ContainerKind.SIDECAR]
    if not first:
        first = active[-1:]
    return (record.name for record in first if not record.stopping)


def _restarts(record: ContainerRecord, restart_policy: str) -> bool:
    return restart_policy == "Always" or (restart_policy == "OnFailure" and _failed(record))


def _failed(record: ContainerRecord) -> bool:
    return record.state is ContainerPhase.ENDED and record.ended is not None and record.ended.code != 0


def _of(records: Iterable[ContainerRecord], kind: ContainerKind) -> Iterable[ContainerRecord]:
    return (record for record in records if record.kind is kind)


# Transitions of a record


def note_starting(record: ContainerRecord) -> None:
    """Under way. It is not a run yet: if it cannot be created, what was said of the last run still holds."""
    record.state, record.problem = ContainerPhase.STARTING, None
    record.started = record.ready = record.stopping = False


def note_running(record: ContainerRecord, container_id: str, started_at: float) -> None:
    _next_run(record)
    record.state, record.container_id, record.started_at = ContainerPhase.RUNNING, container_id, started_at


def note_problem(record: ContainerRecord, reason: str, message: str, now: float) -> None:
    """It could not even be created; the next attempt waits a little longer each time."""
    record.state = ContainerPhase.ENDED if record.ended is not None else ContainerPhase.WAITING
    record.problem = (reason, message)
    record.delay = min(30.0, max(1.0, record.delay * 2))
    record.not_before = now + record.delay


def note_ended(record: ContainerRecord, ended: Termination, backoff: Backoff) -> None:
    if record.state is ContainerPhase.STARTING:
        _next_run(record)
    record.state, record.ended, record.container_id = ContainerPhase.ENDED, ended, ended.container_id
    record.started = record.ready = record.stopping = False
    if ended.finished - ended.started >= backoff.reset:
        record.delay = 0.0
    record.not_before = ended.finished + record.delay
    record.delay = min(backoff.cap, max(backoff.base, record.delay * 2))


def _next_run(record: ContainerRecord) -> None:
    record.restarts = record.next_run
    if record.ended is not None:
        record.previous, record.ended = record.ended, None
