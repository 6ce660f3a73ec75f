"""The pods of one job, each read once: which slots they fill, counts by role, and a pod that does not start.

Only pods that the job owns count: by their controller's uid, or, where a pod has lost its controller, by our seal. Any
other pod with the job's labels has a name that is taken, and nothing else: it ends, fails and succeeds for itself.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.meta import EMPTY
from edl.api.labels import LABEL_ROLE
from edl.jobs.core.children import is_sealed
from edl.jobs.core.pods.pod_set import Counts
from edl.jobs.core.pods.restarts import RestartingPod, observe_restarts
from edl.jobs.core.pods.slots import SlotPod, observe_pod

_COUNTED = {"pending": "pending", "running": "active", "succeeded": "succeeded"}


class ObservedPods:
    """`slotted` is the role whose pods fill slots; `owner` is the uid of their controller ("" if there is none yet).

    `key` is the job's, by which orphans are known. `workloads` are the uids of the job's controllers of pods that fill
    no slots. `alone`: the slotted role has one slot, which has no number. `forgiven`: by pod, restarts of others that
    no longer count.
    """

    def __init__(
        self,
        pods: Sequence[Pod],
        job: str,
        slotted: str,
        owner: str,
        now: float,
        *,
        key: str = "",
        workloads: Collection[str] = (),
        alone: bool = False,
        forgiven: Mapping[str, int] = EMPTY,
    ) -> None:
        self._alone, self._key, self._workloads = alone, key, workloads
        self.slots: list[SlotPod] = []
        """In the order of slots and attempts."""
        self.orphans: list[Pod] = []
        self.unmatched: set[str] = set()
        """Names of pods that bear our labels but belong to another owner, or fill no slot."""
        self.startup_problem: SlotPod | None = None
        self.restarting: dict[str, list[RestartingPod]] = {}
        """By role: pods that fill no slot."""
        for pod in sorted(pods, key=lambda pod: pod.metadata.name):
            role = pod.metadata.labels.get(LABEL_ROLE, "")
            seen: SlotPod | None = None
            if role == slotted:
                seen = self._slot(pod, job, role, owner, now)
            elif self._of_workload(pod):
                restarting = observe_restarts(pod, forgiven.get(pod.metadata.name, 0), now)
                self.restarting.setdefault(role, []).append(restarting)
                seen = restarting.seen
            if seen is None:
                self.unmatched.add(pod.metadata.name)
            elif self.startup_problem is None and seen.live and seen.reason:
                self.startup_problem = seen
        self.slots.sort(key=lambda pod: (pod.index, pod.attempt))

    def _slot(self, pod: Pod, job: str, role: str, owner: str, now: float) -> SlotPod | None:
        controller = pod.metadata.controller
        ours = controller.uid == owner if controller is not None else is_sealed(pod.metadata, Pod.KIND, self._key)
        if not ours:
            return None
        seen = observe_pod(pod, job, role, now, alone=self._alone)
        if seen is not None:
            self.slots.append(seen)
            if controller is None and not seen.leaving:
                self.orphans.append(pod)
        return seen

    def _of_workload(self, pod: Pod) -> bool:
        controller = pod.metadata.controller
        return controller is not None and controller.uid in self._workloads

    @property
    def every(self) -> list[SlotPod]:
        """Those that fill slots, and those that fill none."""
        return [*self.slots, *(pod.seen for pods in self.restarting.values() for pod in pods)]

    def counts(self, slotted: str, planned: Counts, sizes: Mapping[str, int]) -> dict[str, Counts]:
        """Counts by role. Those of the slotted role come from the plan; pods still to be created are pending."""
        counts = {slotted: planned}
        for role, size in sizes.items():
            if role != slotted:
                known = _counted(pod.seen for pod in self.restarting.get(role, ()))
                missing = max(0, size - known.active - known.pending)
                counts[role] = replace(known, desired=size, pending=known.pending + missing)
        return counts

    def ready(self, role: str) -> int:
        """Pods of a role that fills no slots which are ready."""
        return sum(pod.seen.ready and pod.seen.state == "running" for pod in self.restarting.get(role, ()))

    def forgiven(self) -> Iterator[tuple[str, dict[str, int]]]:
        """By role: restarts that no longer count, by pod, where there are any."""
        for role, pods in sorted(self.restarting.items()):
            found = {pod.seen.name: pod.forgiven for pod in pods if pod.forgiven}
            if found:
                yield role, found

    @property
    def requeue_at(self) -> float | None:
        """When time alone will change what is said of pods that fill no slot."""
        times = (pod.requeue_at for pods in self.restarting.values() for pod in pods)
        return min((when for when in times if when is not None), default=None)


def _counted(pods: Iterable[SlotPod]) -> Counts:
    counts = Counter(_COUNTED.get(pod.state, "failed") for pod in pods if not pod.leaving)
    return Counts(**counts)
