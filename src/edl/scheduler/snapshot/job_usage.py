"""Counts the pods of one job, by role and node."""

from collections.abc import Iterable, Mapping

from edl.scheduler.placement.resources import Amounts
from edl.scheduler.snapshot.job_terms import RoleIndex
from edl.scheduler.snapshot.pod_facts import PodFacts
from edl.scheduler.snapshot.types import NOWHERE


class JobUsage:
    """The pods of one job, by role."""

    __slots__ = ("bound", "done", "live", "running", "smallest", "started_sum", "unbound")

    def __init__(self, role_index: RoleIndex, pods: Iterable[PodFacts], positions: Mapping[str, int]) -> None:
        roles = len(role_index.requests)
        self.bound: list[dict[int, int]] = [{} for _ in range(roles)]
        self.live = [0] * roles
        self.unbound: list[list[PodFacts]] = []  # per role, once there is one
        self.smallest: dict[int, Amounts] = {}
        self.done = 0
        self.running = 0
        self.started_sum = 0
        for pod in pods:
            role = role_index.roles.get(pod.role, role_index.lead)
            if pod.finished:
                self.done += role == role_index.lead and pod.succeeded and pod.leaving_until is None
            else:
                self._count(pod, role, role_index, positions)

    def _count(self, pod: PodFacts, role: int, role_index: RoleIndex, positions: Mapping[str, int]) -> None:
        if role == role_index.lead and pod.running_since is not None:
            self.running += 1
            self.started_sum += pod.running_since
        if pod.leaving_until is not None:
            return
        if not pod.node:
            self.unbound = self.unbound or [[] for _ in role_index.requests]
            self.unbound[role].append(pod)
            return
        bound, node = self.bound[role], positions.get(pod.node, NOWHERE)
        bound[node] = bound.get(node, 0) + 1
        self.live[role] += 1
        if pod.requests != role_index.requests[role]:
            known = self.smallest.get(role, pod.requests)
            self.smallest[role] = {name: min(units, known.get(name, 0)) for name, units in pod.requests.items()}

    def same(self, other: "JobUsage") -> bool:
        return (
            self.bound == other.bound
            and self.started_sum == other.started_sum
            and self.running == other.running
            and self.done == other.done
            and self.unbound == other.unbound
            and self.smallest == other.smallest
        )


def live_pods(pods: Iterable[PodFacts]) -> int:
    """Of a job whose roles nobody knows, because it does not validate."""
    return sum(1 for pod in pods if not pod.finished and pod.leaving_until is None)
