"""The pods of one job, each read once: who fills which slot, how every role stands, what keeps one from starting."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from edl.api.core import Pod
from edl.jobs.podset import Counts
from edl.jobs.slots import ROLE, SlotPod, observe_pod, read


class Sight:
    """`slotted` is the role whose pods fill slots; `owner` is the uid of their controller ("" if there is none yet).

    `alone`: that role has one slot, which has no number.
    """

    def __init__(
        self, pods: Sequence[Pod], job: str, slotted: str, owner: str, now: float, *, alone: bool = False
    ) -> None:
        self._alone = alone
        self.slots: list[SlotPod] = []
        """In the order of slots and attempts."""
        self.orphans: list[Pod] = []
        self.strange: set[str] = set()
        """Names of pods that bear our labels but are on their way out, or fill no slot."""
        self.trouble: SlotPod | None = None
        self._counts: dict[str, Counts] = {}
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            role = pod.metadata.labels.get(ROLE, "")
            seen = self._slot(pod, job, role, owner, now) if role == slotted else read(pod, now)
            if seen is None:
                self.strange.add(pod.metadata.name)
                continue
            if self.trouble is None and seen.live and seen.reason:
                self.trouble = seen
            if role != slotted:
                self._counts[role] = _counted(self._counts.get(role, Counts()), seen)
        self.slots.sort(key=lambda pod: (pod.index, pod.attempt))

    def _slot(self, pod: Pod, job: str, role: str, owner: str, now: float) -> SlotPod | None:
        controller = pod.metadata.controller
        if controller is not None and controller.uid != owner:
            return None
        seen = observe_pod(pod, job, role, now, alone=self._alone)
        if seen is not None:
            self.slots.append(seen)
            if controller is None and not seen.leaving:
                self.orphans.append(pod)
        return seen

    def counts(self, slotted: str, planned: Counts, sizes: Mapping[str, int]) -> dict[str, Counts]:
        """Per role how it stands. Of the slotted role the plan knows better; pods still to be made are pending."""
        counts = {slotted: planned}
        for role, size in sizes.items():
            if role != slotted:
                known = self._counts.get(role, Counts())
                missing = max(0, size - known.active - known.pending)
                counts[role] = replace(known, desired=size, pending=known.pending + missing)
        return counts


def _counted(counts: Counts, pod: SlotPod) -> Counts:
    if pod.leaving:
        return counts
    field = {"pending": "pending", "running": "active", "succeeded": "succeeded"}.get(pod.state, "failed")
    return replace(counts, **{field: getattr(counts, field) + 1})
