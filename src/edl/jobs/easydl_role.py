"""One role of an EasyDL job at one look: which pods come and go, which are resized, how far each update has come.

Updates that cannot be are remembered in the JobResource's status (`refused`, with the resources it was about) and not
tried again until others are asked for; everything else is read from the pods.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edl.api.core import Pod
from edl.api.easydl_plan import TRAINER
from edl.api.job_resource import SlotUpdate
from edl.api.meta import EMPTY
from edl.api.roles import Role
from edl.jobs.easydl_children import EasydlChildren
from edl.jobs.easydl_resources import DEFERRED_FOR, NOTE, Fit, fit, resizable, resize, resize_words, words
from edl.jobs.intents import Change
from edl.jobs.podset import NewPod, PodSetPlan, Wanted, plan_pods
from edl.jobs.record import Ledger, Record
from edl.jobs.sight import Sight
from edl.jobs.slots import SlotPod
from edl.jobs.succession import failed_moves

OOM = "OOMKilled"
OOM_PAUSE = 10.0
"""So long, and twice as long each time, a slot whose pod ran out of memory waits for a plan that gives it more."""


class Sightings(msgspec.Struct, frozen=True):
    """What a look has of one role. `role` is None if the plan has none of it (any more).

    `known`: updates as the JobResource's status tells of them, by slot. `unresizable`: pods that the API server would
    not have resized.
    """

    name: str
    role: Role | None
    pods: Sequence[Pod]
    record: Record
    owner: str
    known: Mapping[str, SlotUpdate] = EMPTY
    resizes: bool = False
    unresizable: frozenset[str] = frozenset()


class RoleLook:
    def __init__(self, seen: Sightings, wanted: Wanted, children: EasydlChildren, now: float) -> None:
        self.name, self.role = seen.name, seen.role
        self.sight = Sight(seen.pods, wanted.job, seen.name, seen.owner, now, alone=wanted.alone)
        self._seen, self._children, self._now = seen, children, now
        self._pods = {pod.metadata.uid: pod for pod in seen.pods}
        self._newest = {pod.index: pod for pod in self.sight.slots if pod.live}
        self._fits: dict[str, Fit] = {}
        self.resizes: list[Change] = []
        self.refused = self._refused()
        self.news = any(seen.known.get(slot) != update for slot, update in self.refused.items())
        """Something is refused that the status does not tell of yet."""
        stale = self._stale() if seen.name != TRAINER else frozenset()
        self.wanted = replace(
            wanted, stale=stale, hold=self._hold(), taken=wanted.taken | frozenset(self.sight.strange)
        )
        self.plan: PodSetPlan = plan_pods(self.wanted, self.sight.slots, seen.record, now)

    def slot(self, index: int) -> str:
        return self._children.slot(self.name, index)

    # What should change.

    def _refused(self) -> dict[str, SlotUpdate]:
        """By slot: what was refused before and still is asked for, and new pods that failed before they took over."""
        refused: dict[str, SlotUpdate] = {}
        for index, pod in self._newest.items():
            known, asked = self._seen.known.get(self.slot(index)), self._asked(index)
            if known is not None and (known.state, known.asked) == ("refused", asked) and self._note(pod) != asked:
                refused[known.name] = known
        for pod in failed_moves(self.sight.slots, Ledger(self._seen.record)):
            if pod.state == "failed" and not pod.leaving and self._note(pod) == self._asked(pod.index):
                name, why = self.slot(pod.index), f"its new pod {pod.name} failed: {pod.cause or 'no reason given'}"
                refused[name] = SlotUpdate(name=name, state="refused", asked=self._asked(pod.index), reason=why)
        return refused

    def _stale(self) -> frozenset[str]:
        stale: set[str] = set()
        for pod in self.sight.slots:
            if not pod.live:
                continue
            found = self._fits[pod.uid] = fit(self._pods[pod.uid], self._wanted(pod.index), self._now)
            if found in ("differs", "stuck") and self.slot(pod.index) not in self.refused:
                if found == "differs" and self._may_resize(pod):
                    self.resizes.append(resize(self._pods[pod.uid], self._wanted(pod.index)))
                else:
                    stale.add(pod.uid)
        return frozenset(stale)

    def _may_resize(self, pod: SlotPod) -> bool:
        if not self._seen.resizes or pod.name in self._seen.unresizable or self._newest[pod.index] is not pod:
            return False
        return resizable(self._pods[pod.uid], self._wanted(pod.index))

    def _hold(self) -> dict[int, float]:
        hold: dict[int, float] = {}
        for pod in self.sight.slots:  # the last one of a slot counts
            hold.pop(pod.index, None)
            if pod.state == "failed" and pod.reason == OOM and self._note(pod) == self._asked(pod.index):
                times = max(0, self._seen.record.slot(pod.index).failures - 1)
                hold[pod.index] = (pod.ended or pod.created) + OOM_PAUSE * 2 ** min(times, 10)
        return hold

    def _wanted(self, index: int) -> Mapping[str, str]:
        return self._children.asked(self.name, index)

    def _asked(self, index: int) -> str:
        return words(self._wanted(index))

    def _note(self, pod: SlotPod) -> str | None:
        return self._pods[pod.uid].metadata.annotations.get(NOTE)

    @property
    def wake(self) -> float | None:
        """A resize that its node keeps waiting is not waited for for ever."""
        return self._now + DEFERRED_FOR if "resizing" in self._fits.values() else None

    # What to tell.

    def update(self, index: int) -> SlotUpdate:
        """How far an update of this slot has come."""
        name = self.slot(index)
        if name in self.refused:
            return self.refused[name]
        state, pod, reason = self._progress(index)
        return SlotUpdate(name=name, state=state, asked=self._asked(index), pod=pod, reason=reason)

    def moving(self) -> set[int]:
        """Slots whose pods are not as the plan asks, whether it names them or not."""
        resized = {pod.index for pod in self.sight.slots if self._fits.get(pod.uid) in ("differs", "stuck", "resizing")}
        return (resized & {*self.plan.holders}) | {*self.plan.coming}

    def _progress(self, index: int) -> tuple[str, str, str]:
        holder, coming = self.plan.holders.get(index), self.plan.coming.get(index)
        if coming is not None:
            beside = f" beside {holder.name}" if holder is not None else ""
            return "replacing", coming.name, _trouble(coming) or f"it starts{beside}"
        if holder is None:
            return self._absent(index)
        found = self._fits.get(holder.uid, "fits")
        if found == "fits":
            return (
                ("done", holder.name, "") if holder.ready else ("pending", holder.name, _trouble(holder) or "it starts")
            )
        if found == "resized":
            return "resized", holder.name, "it was resized in place"
        if holder.uid not in (self.wanted.stale or ()):
            return "pending", holder.name, resize_words(self._pods[holder.uid])
        first = min(self.plan.coming, default=index)
        return "pending", holder.name, f"waits until {self.slot(first)} has moved" if first != index else "it is next"

    def _absent(self, index: int) -> tuple[str, str, str]:
        most = self.role.max if self.role is not None else 0
        if index >= most:
            return "refused", "", f"there is no such slot: the plan gives {self.name} {most} of them"
        if index in self.plan.record.done:
            return "refused", "", "its work is done"
        if index >= self.wanted.size:
            return "pending", "", f"the scheduler has granted {self.wanted.size} of {most}"
        return "pending", "", "it has no pod at present"


def _trouble(pod: SlotPod | NewPod) -> str:
    if isinstance(pod, NewPod) or not pod.reason:
        return ""
    return f"{pod.reason}{f': {pod.message}' if pod.message else ''}"
