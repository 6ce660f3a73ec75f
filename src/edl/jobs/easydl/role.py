"""Reconciles one role of an EasyDL job: which pods come and go, which are resized, how far each update has come.

Refused updates are kept in the JobResource's status, with the resources they were about, and not tried again until
others are asked for; everything else is read from the pods.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edl.api.job_view import Role
from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.meta import EMPTY
from edl.api.labels import RESOURCES
from edl.jobs.core.actions import Change
from edl.jobs.core.children import Owner
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.pod_set import DesiredPods, NewPod, PodSetPlan, plan_pods
from edl.jobs.core.pods.replacement import failed_moves
from edl.jobs.core.pods.slot_history import Ledger, SlotHistory
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.easydl.children import EasydlChildren
from edl.jobs.easydl.followed_plan import TRAINER
from edl.jobs.easydl.job_resource import SlotUpdate
from edl.jobs.easydl.resources import DEFERRED_FOR, Fit, fit, resizable, resize, resize_message, resources_text

OOM = "OOMKilled"
OOM_PAUSE = 10.0
"""So long, and twice as long each time, a slot whose pod ran out of memory waits for a plan that gives it more."""


UNPLACEABLE_FOR = 60.0
"""So long a new pod may wait for a node beside the old one. Then the update is refused, for the next may go on."""


class ObservedRole(msgspec.Struct, frozen=True):
    """Everything observed of one role. `role` is None if the plan has none of it (any more).

    `known`: updates as the JobResource's status tells of them, by slot. `unresizable`: pods that the API server would
    not have resized.
    """

    name: str
    role: Role | None
    pods: Sequence[Pod]
    record: SlotHistory
    owner: Owner
    known: Mapping[str, SlotUpdate] = EMPTY
    resizes: bool = False
    unresizable: frozenset[str] = frozenset()


class RoleReconcile:
    def __init__(self, seen: ObservedRole, wanted: DesiredPods, children: EasydlChildren, now: float) -> None:
        self.name, self.role = seen.name, seen.role
        self.observed_pods = ObservedPods(
            seen.pods, wanted.job, seen.name, seen.owner.uid, now, key=seen.owner.key, alone=wanted.alone
        )
        self._seen, self._children, self._now = seen, children, now
        self._pods = {pod.metadata.uid: pod for pod in seen.pods}
        self._newest = {pod.index: pod for pod in self.observed_pods.slots if pod.live}
        self._fits: dict[str, Fit] = {}
        self.resizes: list[Change] = []
        self._unplaceable = self._find_unplaceable() if seen.name != TRAINER else []
        self.refused = self._refused()
        self.news = any(seen.known.get(slot) != update for slot, update in self.refused.items())
        """Something is refused that the status does not tell of yet."""
        stale = self._stale() if seen.name != TRAINER else frozenset()
        self.wanted = replace(
            wanted, stale=stale, hold=self._hold(), taken=wanted.taken | frozenset(self.observed_pods.unmatched)
        )
        self.plan: PodSetPlan = plan_pods(self.wanted, self.observed_pods.slots, seen.record, now)

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
        for pod in failed_moves(self.observed_pods.slots, Ledger(self._seen.record)):
            if pod.state == "failed" and not pod.leaving and self._note(pod) == self._asked(pod.index):
                name, why = self.slot(pod.index), f"its new pod {pod.name} failed: {pod.cause or 'no reason given'}"
                refused[name] = SlotUpdate(name=name, state="refused", asked=self._asked(pod.index), reason=why)
        for pod in self._unplaceable:
            name, why = self.slot(pod.index), f"no node can take its new pod {pod.name}: {pod.message or pod.reason}"
            refused[name] = SlotUpdate(name=name, state="refused", asked=self._asked(pod.index), reason=why)
        return refused

    def _find_unplaceable(self) -> list[SlotPod]:
        """Pods that have waited long for a node while the one before them in their slot runs."""
        serving = {pod.index for pod in self.observed_pods.slots if pod.live and pod.state == "running"}
        return [
            pod
            for pod in self._newest.values()
            if pod.reason == "Unschedulable" and pod.index in serving and self._now - pod.created >= UNPLACEABLE_FOR
        ]

    def _stale(self) -> frozenset[str]:
        stale = {pod.uid for pod in self._unplaceable}
        for pod in self.observed_pods.slots:
            if not pod.live or pod.uid in stale:
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
        for pod in self.observed_pods.slots:  # the last one of a slot counts
            hold.pop(pod.index, None)
            if pod.state == "failed" and pod.reason == OOM and self._note(pod) == self._asked(pod.index):
                times = max(0, self._seen.record.slot(pod.index).failures - 1)
                hold[pod.index] = (pod.ended or pod.created) + OOM_PAUSE * 2 ** min(times, 10)
        return hold

    def _wanted(self, index: int) -> Mapping[str, str]:
        return self._children.asked(self.name, index)

    def _asked(self, index: int) -> str:
        return resources_text(self._wanted(index))

    def _note(self, pod: SlotPod) -> str | None:
        return self._pods[pod.uid].metadata.annotations.get(RESOURCES)

    @property
    def requeue_at(self) -> float | None:
        """Neither a resize that its node keeps waiting nor a pod that no node takes is waited for for ever."""
        waiting = [pod.created + UNPLACEABLE_FOR for pod in self.plan.coming.values() if isinstance(pod, SlotPod)]
        ends = [*([self._now + DEFERRED_FOR] if "resizing" in self._fits.values() else []), *waiting]
        return min((end for end in ends if end > self._now), default=None)

    # What to report.

    def update(self, index: int) -> SlotUpdate:
        """How far an update of this slot has come."""
        name = self.slot(index)
        if name in self.refused:
            return self.refused[name]
        state, pod, reason = self._progress(index)
        return SlotUpdate(name=name, state=state, asked=self._asked(index), pod=pod, reason=reason)

    def moving(self) -> set[int]:
        """Slots whose pods are not as the plan asks, whether it names them or not."""
        resized = {
            pod.index for pod in self.observed_pods.slots if self._fits.get(pod.uid) in ("differs", "stuck", "resizing")
        }
        return (resized & {*self.plan.holders}) | {*self.plan.coming}

    def _progress(self, index: int) -> tuple[str, str, str]:
        holder, coming = self.plan.holders.get(index), self.plan.coming.get(index)
        if coming is not None:
            beside = f" beside {holder.name}" if holder is not None else ""
            return "replacing", coming.name, _startup_problem(coming) or f"it starts{beside}"
        if holder is None:
            return self._absent(index)
        found = self._fits.get(holder.uid, "fits")
        if found == "fits":
            return (
                ("done", holder.name, "")
                if holder.ready
                else ("pending", holder.name, _startup_problem(holder) or "it starts")
            )
        if found == "resized":
            return "resized", holder.name, "it was resized in place"
        if holder.uid not in (self.wanted.stale or ()):
            return "pending", holder.name, resize_message(self._pods[holder.uid])
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


def _startup_problem(pod: SlotPod | NewPod) -> str:
    if isinstance(pod, NewPod) or not pod.reason:
        return ""
    return f"{pod.reason}{f': {pod.message}' if pod.message else ''}"
