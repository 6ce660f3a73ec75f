"""What was seen, moment by moment: who held which cores, how the losses went, what was done and decided. Pure data."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from edl.api import quantity

Kind = Literal["user", "fault", "decision"]


class Moment(msgspec.Struct, frozen=True):
    """`held`: node to holder to millicores. `sizes`: trainers that run. Holders are jobs and the service by name."""

    at: float
    held: Mapping[str, Mapping[str, int]] = {}
    sizes: Mapping[str, int] = {}
    losses: Mapping[str, float] = {}

    def cores(self, holder: str) -> int:
        return round(sum(node.get(holder, 0) for node in self.held.values()) / 1000)


class Act(msgspec.Struct, frozen=True):
    """`mark` numbers what is drawn into the charts; decisions carry none."""

    at: float
    kind: Kind
    words: str
    mark: int = 0
    who: str = ""


class Recording(msgspec.Struct):
    nodes: int
    node_cores: int
    holders: list[str] = []
    moments: list[Moment] = []
    acts: list[Act] = []

    @property
    def cores(self) -> int:
        return self.nodes * self.node_cores

    @property
    def seconds(self) -> float:
        return self.moments[-1].at if self.moments else 0.0

    @property
    def marks(self) -> list[Act]:
        return [act for act in self.acts if act.mark]

    def note(self, at: float, kind: Kind, words: str, who: str = "") -> Act:
        mark = len(self.marks) + 1 if kind != "decision" else 0
        act = Act(at, kind, words, mark, who)
        self.acts.append(act)
        return act

    def sampled(self, columns: int) -> list[Moment]:
        """So many moments, evenly spread over the time; of what lies between two, the later one counts."""
        if not self.moments:
            return []
        last, found, place = self.seconds or 1.0, [], 0
        for column in range(columns):
            until = last * (column + 1) / columns
            while place + 1 < len(self.moments) and self.moments[place + 1].at <= until:
                place += 1
            found.append(self.moments[place])
        return found

    def losses(self, job: str) -> list[tuple[float, float]]:
        return [(moment.at, moment.losses[job]) for moment in self.moments if job in moment.losses]


def moment(at: float, pods: Iterable[Mapping[str, Any]], losses: Mapping[str, float]) -> Moment:
    held: dict[str, Counter[str]] = {}
    sizes: Counter[str] = Counter()
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        holder = labels.get("edl.dev/job") or labels.get("app", "")
        node, phase = pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase")
        if not node or phase not in ("Pending", "Running"):
            continue
        held.setdefault(node, Counter())[holder] += _millicores(pod["spec"]["containers"])
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if phase == "Running" and not leaving and labels.get("edl.dev/role", "trainer") == "trainer":
            sizes[holder] += 1
    return Moment(at, held, sizes, losses)


def _millicores(containers: Sequence[Mapping[str, Any]]) -> int:
    requests = ((container.get("resources") or {}).get("requests") or {} for container in containers)
    return sum(quantity.milli(request.get("cpu", 0)) for request in requests)
