"""What is remembered of a job for others like it, and how alike two jobs are."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from .curve import Curve, fit
from .evidence import points
from .facts import OOM, Features, JobFacts, Roles
from .history import comparable
from .settings import Settings
from .units import ROLES, WORKER, RolePlan
from .workers import best_size

WORDS = {"program": 1.2, "image": 0.3, "namespace": 0.15}  # how far apart jobs are that differ in this
NUMBERS = {"records": 0.1, "batch": 0.25, "parameters": 0.4, "gpu": 1.0}  # per factor of two


class Peak(msgspec.Struct, frozen=True, array_like=True):
    """The most that any pod of a role used, and the largest limit at which one was killed for want of memory."""

    cpu: float = 0.0
    memory: int = 0
    oom: int = 0


class Lesson(msgspec.Struct, frozen=True, omit_defaults=True):
    """One job in a few numbers. `roles` are the sizes that were best for it, `throughput` what they bring."""

    job: str
    time: float
    features: Features
    roles: Roles
    throughput: float = 0.0
    peaks: dict[str, Peak] = {}
    curve: Curve | None = None
    outcome: str = ""


def learn(job: str, facts: JobFacts, now: float, outcome: str, settings: Settings) -> Lesson:
    """The best sizes by the job's own curve, not the last ones: a job may have ended while it tried something."""
    curve = fit(points(comparable(facts)))
    roles = dict(facts.present)
    if curve is not None and WORKER in roles:
        if curve.sizes > 1:
            tried = max(curve.largest, 1)
            roles[WORKER] = RolePlan(best_size(curve, tried, settings), roles[WORKER].resource)
        throughput = curve.at(roles[WORKER].replicas)
    else:
        throughput = 0.0
    peaks = {role: peak for role in ROLES if (peak := _peak(facts, role)) != Peak()}
    finite = curve if curve and all(np.isfinite(curve.values)) else None
    return Lesson(job, now, facts.features, roles, round(throughput, 3), peaks, finite, outcome)


def _peak(facts: JobFacts, role: str) -> Peak:
    uses = [use for sample in facts.samples for use in sample.of(role)]
    killed = [each.memory for each in facts.incidents if each.role == role and each.reason == OOM]
    return Peak(
        max((use.cpu for use in uses), default=0.0),
        max((use.memory for use in uses), default=0),
        max(killed, default=0),
    )


class Library:
    """Lessons with their features as columns, a row each, so that ten thousand of them are compared at once."""

    def __init__(self, lessons: Sequence[Lesson] = ()) -> None:
        self._rows: dict[str, int] = {}
        self._lessons: list[Lesson] = []
        self._numbers: NDArray[np.float64] = np.zeros((64, len(NUMBERS)))
        self._words: NDArray[np.int64] = np.zeros((64, len(WORDS) + 1), np.int64)  # the strategy is the last
        for lesson in lessons:
            self.add(lesson)

    def __len__(self) -> int:
        return len(self._lessons)

    def add(self, lesson: Lesson) -> None:
        """A later lesson of a job takes the place of the earlier one."""
        if WORKER not in lesson.roles:
            return
        row = self._rows.setdefault(lesson.job, len(self._lessons))
        if row == len(self._lessons):
            self._lessons.append(lesson)
            if row == len(self._numbers):
                self._numbers, self._words = (np.concatenate([old, old]) for old in (self._numbers, self._words))
        self._lessons[row] = lesson
        self._numbers[row], self._words[row] = _numbers(lesson.features), _words(lesson.features)

    def similar(self, features: Features, settings: Settings, *, besides: str = "") -> list[tuple[float, Lesson]]:
        """The most similar past jobs and how similar they are, best first, `besides` one: the job itself. Of equally
        similar ones the newest comes first."""
        if not self._lessons or not (features.program or features.image):
            return []  # what nothing is known of is like nothing
        alike = np.exp(-self._distances(features))
        rows = np.flatnonzero(alike >= settings.similar)
        most = min(len(rows), 4 * settings.neighbours)
        rows = rows[np.argpartition(-alike[rows], most - 1)[:most]] if most else rows
        found = [(float(alike[row]), self._lessons[row]) for row in rows if self._lessons[row].job != besides]
        found.sort(key=lambda pair: (-round(pair[0], 6), -pair[1].time))
        return found[: settings.neighbours]

    def _distances(self, features: Features) -> NDArray[np.float64]:
        """Sums of weighted differences; another strategy is nothing alike. An unknown number is half a difference."""
        count, own = len(self._lessons), np.array(_numbers(features))
        numbers, words = self._numbers[:count], self._words[:count]
        apart = np.abs(numbers - own)
        apart = np.where(np.isnan(apart), np.where(np.isnan(numbers) & np.isnan(own), 0.0, 0.5), apart)
        differ = words != np.array(_words(features), np.int64)
        total: NDArray[np.float64] = apart @ np.array(list(NUMBERS.values()))
        total = total + differ[:, :-1] @ np.array(list(WORDS.values()))
        return np.where(differ[:, -1], np.inf, total)


def _words(features: Features) -> list[int]:
    return [hash(getattr(features, word)) for word in (*WORDS, "strategy")]


def _numbers(features: Features) -> list[float]:
    """Logarithms to base two; nan where nothing is known, but no device is a known number."""
    values = [float(getattr(features, name)) for name in NUMBERS if name != "gpu"]
    return [
        *(float(np.log2(value)) if value > 0 else float("nan") for value in values),
        float(np.log2(1 + features.gpu)),
    ]
