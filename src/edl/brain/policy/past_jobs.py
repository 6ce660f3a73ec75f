"""Summaries of past jobs, and the search for those similar to a new job."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from edl.brain.policy.history import comparable_samples
from edl.brain.policy.measurements import throughput_points
from edl.brain.policy.settings import Settings
from edl.brain.policy.workers import best_size
from edl.protocol.job_facts import OOM, Features, JobFacts, Roles
from edl.protocol.resources import ROLES, WORKER, RolePlan
from edl.throughput.curve import Curve, fit

CATEGORIES = {"program": 1.2, "image": 0.3, "namespace": 0.15}  # distance of jobs that differ in this
MOST = 2000  # summaries of a namespace
NUMBERS = {"records": 0.1, "batch": 0.25, "parameters": 0.4, "gpu": 1.0}  # distance per factor of two


class PeakUsage(msgspec.Struct, frozen=True, array_like=True):
    """The highest usage of any pod of a role, and the largest memory limit at which one was OOM-killed."""

    cpu: float = 0.0
    memory: int = 0
    oom: int = 0


class JobSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One job in a few numbers. `roles` are the sizes that were best for it, `throughput` what they reach."""

    job: str
    time: float
    features: Features
    roles: Roles
    throughput: float = 0.0
    peaks: dict[str, PeakUsage] = {}
    curve: Curve | None = None
    outcome: str = ""


def summarise(job: str, facts: JobFacts, now: float, outcome: str, settings: Settings) -> JobSummary:
    """Takes the best sizes by the job's own curve, not the last ones: a job may end in the middle of a trial."""
    curve = fit(throughput_points(comparable_samples(facts)))
    roles = dict(facts.present)
    if curve is not None and WORKER in roles:
        if curve.sizes > 1:
            tried = max(curve.largest, 1)
            roles[WORKER] = RolePlan(best_size(curve, tried, settings), roles[WORKER].resource)
        throughput = curve.at(roles[WORKER].replicas)
    else:
        throughput = 0.0
    peaks = {role: peak for role in ROLES if (peak := _peak_usage(facts, role)) != PeakUsage()}
    finite = curve if curve and all(np.isfinite(curve.values)) else None
    return JobSummary(job, now, facts.features, roles, round(throughput, 3), peaks, finite, outcome)


def _peak_usage(facts: JobFacts, role: str) -> PeakUsage:
    uses = [use for sample in facts.samples for use in sample.of(role)]
    killed = [each.memory for each in facts.incidents if each.role == role and each.reason == OOM]
    return PeakUsage(
        max((use.cpu for use in uses), default=0.0),
        max((use.memory for use in uses), default=0),
        max(killed, default=0),
    )


class PastJobs:
    """Summaries with their features as columns of arrays, so that ten thousand are compared at once.

    Of each namespace at most `most` are kept, the newest: what one tenant adds costs no other tenant's."""

    def __init__(self, summaries: Sequence[JobSummary] = (), *, most: int = MOST) -> None:
        self._most = most
        self._rows: dict[str, dict[str, int]] = {}  # by namespace: rows by job, the oldest first
        self._jobs: list[JobSummary] = []
        self._numbers: NDArray[np.float64] = np.zeros((64, len(NUMBERS)))
        self._categories: NDArray[np.int64] = np.zeros((64, len(CATEGORIES) + 1), np.int64)  # the strategy is the last
        self._owners: NDArray[np.int64] = np.zeros(64, np.int64)
        for summary in summaries:
            self.add(summary)

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, summary: JobSummary) -> None:
        """Replaces an earlier summary of the same job, or the oldest of the namespace if it has too many."""
        if WORKER not in summary.roles:
            return
        owner = namespace_of(summary.job)
        rows = self._rows.setdefault(owner, {})
        if summary.job in rows:
            row = rows.pop(summary.job)
        elif len(rows) >= self._most:
            row = rows.pop(next(iter(rows)))
        else:
            row = self._new_row(summary)
        rows[summary.job] = row
        self._jobs[row], self._owners[row] = summary, hash(owner)
        self._numbers[row], self._categories[row] = _numbers(summary.features), _categories(summary.features)

    def _new_row(self, summary: JobSummary) -> int:
        row = len(self._jobs)
        self._jobs.append(summary)
        if row == len(self._numbers):
            self._numbers, self._categories = (np.concatenate([old, old]) for old in (self._numbers, self._categories))
            self._owners = np.concatenate([self._owners, self._owners])
        return row

    def similar(
        self, features: Features, settings: Settings, *, excluding: str = "", namespace: str = ""
    ) -> list[tuple[float, JobSummary]]:
        """The most similar past jobs with their similarity, best first, newest first among equals. `excluding` is the
        job itself; only those of `namespace` count, if it is given."""
        if not self._jobs or not (features.program or features.image):
            return []  # without a program or an image nothing is similar
        alike = np.exp(-self._distances(features))
        if namespace:
            alike[self._owners[: len(self._jobs)] != hash(namespace)] = 0.0
        rows = np.flatnonzero(alike >= settings.similar)
        most = min(len(rows), 4 * settings.neighbours)
        rows = rows[np.argpartition(-alike[rows], most - 1)[:most]] if most else rows
        found = [(float(alike[row]), self._jobs[row]) for row in rows if self._jobs[row].job != excluding]
        found.sort(key=lambda pair: (-round(pair[0], 6), -pair[1].time))
        return found[: settings.neighbours]

    def _distances(self, features: Features) -> NDArray[np.float64]:
        """Weighted sums of differences; infinite for another strategy. An unknown number is half a difference."""
        count, own = len(self._jobs), np.array(_numbers(features))
        numbers, categories = self._numbers[:count], self._categories[:count]
        apart = np.abs(numbers - own)
        apart = np.where(np.isnan(apart), np.where(np.isnan(numbers) & np.isnan(own), 0.0, 0.5), apart)
        differ = categories != np.array(_categories(features), np.int64)
        total: NDArray[np.float64] = apart @ np.array(list(NUMBERS.values()))
        total = total + differ[:, :-1] @ np.array(list(CATEGORIES.values()))
        return np.where(differ[:, -1], np.inf, total)


def namespace_of(job: str) -> str:
    """Of a job that is named namespace/name/uid."""
    return job.partition("/")[0]


def _categories(features: Features) -> list[int]:
    return [hash(getattr(features, name)) for name in (*CATEGORIES, "strategy")]


def _numbers(features: Features) -> list[float]:
    """Logarithms to base two; nan where unknown. Zero devices is a known number."""
    values = [float(getattr(features, name)) for name in NUMBERS if name != "gpu"]
    return [
        *(float(np.log2(value)) if value > 0 else float("nan") for value in values),
        float(np.log2(1 + features.gpu)),
    ]
