"""What is remembered of a job for others like it, and how alike two jobs are."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from .curve import Curve, fit, points
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
    """Lessons with their features as columns, so that ten thousand of them are compared at once."""

    def __init__(self, lessons: Sequence[Lesson] = ()) -> None:
        self._by_job: dict[str, Lesson] = {lesson.job: lesson for lesson in lessons}
        self._stale = True
        self._lessons: list[Lesson] = []
        self._numbers: NDArray[np.float64] = np.zeros((0, len(NUMBERS)))
        self._words: dict[str, NDArray[np.int64]] = {}
        self._strategies: NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._by_job)

    def add(self, lesson: Lesson) -> None:
        self._by_job[lesson.job] = lesson
        self._stale = True

    def of(self, job: str) -> Lesson | None:
        return self._by_job.get(job)

    def similar(self, features: Features, settings: Settings, *, besides: str = "") -> list[tuple[float, Lesson]]:
        """The most similar past jobs and how similar they are, best first, `besides` one: the job itself."""
        if not features.program and not features.image:
            return []  # what nothing is known of is like nothing
        if self._stale:
            self._index()
        if not self._lessons:
            return []
        alike = np.exp(-self._distances(features))
        order = np.argsort(-alike, kind="stable")[: settings.neighbours + 1]
        found = [(float(alike[row]), self._lessons[row]) for row in order if alike[row] >= settings.similar]
        return [(likeness, lesson) for likeness, lesson in found if lesson.job != besides][: settings.neighbours]

    def _index(self) -> None:
        usable = [lesson for lesson in self._by_job.values() if WORKER in lesson.roles]
        self._lessons = sorted(usable, key=lambda lesson: -lesson.time)  # of equally similar ones the newest first
        self._numbers = np.array([_numbers(lesson.features) for lesson in self._lessons]).reshape(-1, len(NUMBERS))
        self._words = {
            word: np.array([hash(getattr(lesson.features, word)) for lesson in self._lessons], np.int64)
            for word in WORDS
        }
        self._strategies = np.array([hash(lesson.features.strategy) for lesson in self._lessons], np.int64)
        self._stale = False

    def _distances(self, features: Features) -> NDArray[np.float64]:
        """Sums of weighted differences; another strategy is nothing alike. An unknown number is half a difference."""
        own, weights = np.array(_numbers(features)), np.array(list(NUMBERS.values()))
        apart = np.abs(self._numbers - own)
        apart = np.where(np.isnan(apart), np.where(np.isnan(self._numbers) & np.isnan(own), 0.0, 0.5), apart)
        total: NDArray[np.float64] = apart @ weights
        for word, weight in WORDS.items():
            total = total + weight * (self._words[word] != hash(getattr(features, word)))
        return np.where(self._strategies == hash(features.strategy), total, np.inf)


def _numbers(features: Features) -> list[float]:
    """Logarithms to base two; nan where nothing is known, but no device is a known number."""
    values = [float(getattr(features, name)) for name in NUMBERS if name != "gpu"]
    return [
        *(float(np.log2(value)) if value > 0 else float("nan") for value in values),
        float(np.log2(1 + features.gpu)),
    ]
