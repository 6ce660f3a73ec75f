"""The recording of a demonstration: who held which cores, losses, actions and decisions over time. Pure data."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from edl.api.kubernetes import quantity
from edl.api.labels import LABEL_JOB, LABEL_ROLE

Kind = Literal["user", "fault", "decision"]


class Moment(msgspec.Struct, frozen=True):
    """`held`: node to holder to millicores. `sizes`: trainers that run. Holders are jobs and the service by name."""

    at: float
    held: Mapping[str, Mapping[str, int]] = {}
    sizes: Mapping[str, int] = {}
    losses: Mapping[str, float] = {}

    def cores(self, holder: str) -> int:
        return round(sum(node.get(holder, 0) for node in self.held.values()) / 1000)


class TimelineEvent(msgspec.Struct, frozen=True):
    """`mark` numbers what is drawn into the charts; decisions carry none."""

    at: float
    kind: Kind
    text: str
    mark: int = 0
    who: str = ""


class Recording(msgspec.Struct):
    nodes: int
    node_cores: int
    holders: list[str] = []
    moments: list[Moment] = []
    events: list[TimelineEvent] = []

    @property
    def cores(self) -> int:
        return self.nodes * self.node_cores

    @property
    def seconds(self) -> float:
        return self.moments[-1].at if self.moments else 0.0

    @property
    def marks(self) -> list[TimelineEvent]:
        return [event for event in self.events if event.mark]

    def note(self, at: float, kind: Kind, text: str, who: str = "") -> TimelineEvent:
        mark = len(self.marks) + 1 if kind != "decision" else 0
        event = TimelineEvent(at, kind, text, mark, who)
        self.events.append(event)
        return event

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
        holder = labels.get(LABEL_JOB) or labels.get("app", "")
        node, phase = pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase")
        if not node or phase not in ("Pending", "Running"):
            continue
        held.setdefault(node, Counter())[holder] += _millicores(pod["spec"]["containers"])
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if phase == "Running" and not leaving and labels.get(LABEL_ROLE, "trainer") == "trainer":
            sizes[holder] += 1
    return Moment(at, held, sizes, losses)


def _millicores(containers: Sequence[Mapping[str, Any]]) -> int:
    requests = ((container.get("resources") or {}).get("requests") or {} for container in containers)
    return sum(quantity.milli(request.get("cpu", 0)) for request in requests)
