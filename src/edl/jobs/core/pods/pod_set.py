"""Plans the pods of a set for every kind: slots with an index, each filled by a succession of pods.

Given the desired size and the observed pods, it decides which pods to create and which to delete. A slot that lost its
pod gets the next one at once, under a name of its own; a slot that is done stays done; who leaves in a shrink is chosen
here. The end of a pod goes into the record, which is written before anything is done: after a crash the same pods leave
and no failure counts twice. It knows nothing of what the pods run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from edl.api.kubernetes.meta import EMPTY
from edl.jobs.core.pods.failures import Failure, Rules, account, not_before
from edl.jobs.core.pods.replacement import failed_moves as find_failed_moves
from edl.jobs.core.pods.replacement import followed, holders
from edl.jobs.core.pods.slot_history import Ledger, SlotHistory
from edl.jobs.core.pods.slot_names import pod_name, slot_name
from edl.jobs.core.pods.slots import SlotPod


class DesiredPods(msgspec.Struct, frozen=True):
    """`nodes`: where the plan sees new pods. `leavers`: how many it wants gone per node. `taken`: names of others.

    `stale`: uids of pods that are to be followed by others in their slots, one at a time, make before break: the new
    pod starts beside the old one, and that goes when the new one is ready. None: a slot has one pod at a time.
    """

    job: str
    role: str
    size: int
    rules: Rules = Rules()
    nodes: tuple[str, ...] = ()
    leavers: Mapping[str, int] = EMPTY
    taken: frozenset[str] = frozenset()
    stale: frozenset[str] | None = None
    alone: bool = False
    """Its one slot has no number in its name."""
    in_order: bool = False
    """Slots are given up from the highest: those that stay are 0 to size - 1."""
    chief: bool = False
    """Slot 0 is the last to leave: it has a part that the others have not."""
    hold: Mapping[int, float] = EMPTY  # type: ignore[assignment]  # one shared empty mapping fits every key type
    """Slots that get no new pod before a time."""
    stalled: frozenset[str] = frozenset()
    """Uids of pods that run and get nowhere."""


class NewPod(msgspec.Struct, frozen=True):
    name: str
    index: int
    attempt: int
    node: str = ""


class Counts(msgspec.Struct, frozen=True):
    """Pods of a role once the plan is carried out."""

    desired: int = 0
    pending: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class PodSetPlan(msgspec.Struct, frozen=True):
    record: SlotHistory
    counts: Counts
    create: tuple[NewPod, ...] = ()
    delete: tuple[SlotPod, ...] = ()
    failures: tuple[Failure, ...] = ()
    given_up: tuple[SlotPod | int, ...] = ()
    """Slots that get no more pods: the pod that failed last, or the index alone if it is gone."""
    ready: int = 0
    leaving: int = 0
    complete: bool = False
    """Every slot is done: nothing runs, nothing is to be made."""
    holders: Mapping[int, SlotPod] = EMPTY  # type: ignore[assignment]  # one shared empty mapping fits every key type
    """Who has which slot."""
    coming: Mapping[int, SlotPod | NewPod] = EMPTY  # type: ignore[assignment]  # as above
    """Pods that start beside the holder of their slot, to follow it."""
    waits: tuple[int, ...] = ()
    """Slots whose next pod has to wait."""
    requeue_at: float | None = None
    """When to plan again, if time alone will change the plan."""


def plan_pods(wanted: DesiredPods, pods: Sequence[SlotPod], record: SlotHistory, now: float) -> PodSetPlan:
    ledger = Ledger(record)
    for pod in pods:
        ledger.seen(pod.index, pod.attempt)
    if wanted.stale is not None:
        pods = followed(pods)
    failed_moves = find_failed_moves(pods, ledger) if wanted.stale is not None else []
    others = [pod for pod in pods if pod not in failed_moves]
    failures = account(others, ledger, wanted.rules, wanted.stalled)
    live, coming, doomed = holders(pods, ledger, wanted.stale)
    given_up = _given_up(wanted, ledger, live)
    size = _open_slots(wanted, ledger, live, given_up)
    leavers = _leavers(live.values(), len(live) - size, wanted)
    for pod in leavers:
        ledger.ended(pod.index, pod.attempt, pod.ran)
        del live[pod.index]
        if pod.index in coming:
            doomed.append(coming.pop(pod.index))
    closed = {*live, *ledger.done, *given_up}
    create, waits = _new_pods(wanted, size - len(live), closed, pods, ledger, now)
    moves, later = _moves(wanted, live, coming, pods, ledger, now)
    running = [pod for pod in live.values() if pod.state == "running"]
    pending = len(live) - len(running) + len(create)
    return PodSetPlan(
        record=ledger.record(),
        counts=Counts(wanted.size, pending, len(running), succeeded=len(ledger.done), failed=ledger.failed),
        create=(*create, *moves.values()),
        delete=(*doomed, *leavers, *_remains(others, failed_moves)),
        failures=tuple(failures),
        given_up=tuple(_last_failed(pods, index) or index for index in sorted(given_up)),
        ready=sum(pod.ready for pod in running),
        leaving=sum(pod.leaving and not pod.overdue for pod in pods) + len(doomed) + len(leavers),
        complete=_complete(wanted, ledger, live, given_up),
        holders=live,
        coming={**coming, **moves},
        waits=tuple(waits),
        requeue_at=min((when for when in (*waits.values(), later) if when is not None), default=None),
    )


def _remains(others: Sequence[SlotPod], failed_moves: Sequence[SlotPod]) -> Iterator[SlotPod]:
    """Pods that no slot has any use for."""
    yield from _stale(others)
    yield from (pod for pod in failed_moves if not pod.leaving)
    yield from (pod for pod in (*others, *failed_moves) if pod.lingers and not pod.leaving)


def _moves(
    wanted: DesiredPods,
    live: Mapping[int, SlotPod],
    coming: Mapping[int, SlotPod],
    pods: Sequence[SlotPod],
    ledger: Ledger,
    now: float,
) -> tuple[dict[int, NewPod], float | None]:
    """The next slot to move, if none is moving."""
    waiting = sorted(index for index, pod in live.items() if pod.uid in (wanted.stale or ()))
    if coming or not waiting:
        return {}, None
    index = waiting[0]
    until = max((not_before(pod, 0) for pod in pods if pod.index == index), default=0.0)
    if until > now:
        return {}, until
    return {index: _next_pod(wanted, index, ledger, "")}, None


def _given_up(wanted: DesiredPods, ledger: Ledger, live: Mapping[int, SlotPod]) -> set[int]:
    """A slot at its limit stays given up, unless the limit was raised since. Where pods are equals such slots are the
    first to go in a shrink."""
    given_up = ledger.at_limit(wanted.rules.limit) - {*live, *ledger.done}
    if wanted.rules.equals:
        excess = len(live) + len(ledger.done) + len(given_up) - wanted.size
        for index in sorted(given_up, reverse=True)[: max(0, excess)]:
            ledger.forgive(index)
            given_up.remove(index)
    return given_up


def _open_slots(wanted: DesiredPods, ledger: Ledger, live: Mapping[int, SlotPod], given_up: set[int]) -> int:
    """How many pods should live. Slots that are done or given up are part of the size.

    What is left to do when the first are done is done by those that still run: a shrink never takes the last of them.
    """
    left = wanted.size - len(ledger.done) - len(given_up)
    left = max(left, 1 if wanted.size > 0 and live and ledger.done else 0)
    return min(left, len(live)) if wanted.rules.equals and ledger.done else left


def _complete(wanted: DesiredPods, ledger: Ledger, live: Mapping[int, SlotPod], given_up: set[int]) -> bool:
    """The work is done, and nobody is at it any more."""
    if not ledger.done or live or wanted.size <= 0:
        return False
    return wanted.rules.equals or (not given_up and wanted.size <= len(ledger.done))


def _leavers(live: Iterable[SlotPod], excess: int, wanted: DesiredPods) -> list[SlotPod]:
    """Those that cost least: not placed, placed but not running, running; among these first where the plan needs room,
    then the youngest and the highest."""
    if excess <= 0:
        return []
    if wanted.in_order:
        return sorted(live, key=lambda pod: pod.index, reverse=True)[:excess]
    room = dict(wanted.leavers)
    ordered = sorted(live, key=lambda pod: (pod.created, pod.index), reverse=True)
    named: set[str] = set()
    for pod in sorted(ordered, key=_cost):
        if room.get(pod.node, 0) > 0:
            room[pod.node] -= 1
            named.add(pod.uid)
    chief = {0} if wanted.chief else set()
    ordered.sort(key=lambda pod: (pod.index in chief, bool(pod.node), pod.uid not in named, _cost(pod)))
    return ordered[:excess]


def _cost(pod: SlotPod) -> int:
    if not pod.node:
        return 0
    return 1 if pod.state == "pending" else 3 if pod.ready else 2


def _new_pods(
    wanted: DesiredPods, missing: int, closed: set[int], pods: Sequence[SlotPod], ledger: Ledger, now: float
) -> tuple[list[NewPod], dict[int, float]]:
    """One pod for each missing slot, lowest first. A slot whose last pod was refused, or failed again and again, holds
    its place for a while."""
    last = {pod.index: pod for pod in pods}  # in the order of attempts
    create: list[NewPod] = []
    waits: dict[int, float] = {}
    nodes = iter(wanted.nodes)
    index = 0
    while len(create) + len(waits) < missing:
        if index not in closed:
            until = not_before(last.get(index), ledger.slot(index).failures)
            until = max(until, wanted.hold.get(index, 0.0))
            if until > now:
                waits[index] = until
            else:
                create.append(_next_pod(wanted, index, ledger, next(nodes, "")))
        index += 1
    return create, waits


def _next_pod(wanted: DesiredPods, index: int, ledger: Ledger, node: str) -> NewPod:
    slot = slot_name(wanted.job, wanted.role, index, alone=wanted.alone)
    attempt = ledger.slot(index).attempt + 1
    while pod_name(slot, attempt) in wanted.taken:
        attempt += 1
    return NewPod(pod_name(slot, attempt), index, attempt, node)


def _stale(pods: Sequence[SlotPod]) -> list[SlotPod]:
    """Dead pods beyond the one per slot that is kept for its log; a failed one tells more than a lost one."""
    kept: dict[int, SlotPod] = {}
    stale: list[SlotPod] = []
    for pod in pods:
        if pod.leaving or pod.state not in ("failed", "lost"):
            continue
        other = kept.get(pod.index)
        if other is not None:
            worse = pod if (pod.state, other.state) == ("lost", "failed") else other
            stale.append(worse)
            pod = other if worse is pod else pod
        kept[pod.index] = pod
    return stale


def _last_failed(pods: Sequence[SlotPod], index: int) -> SlotPod | None:
    return next((pod for pod in reversed(pods) if pod.index == index and pod.state == "failed"), None)
