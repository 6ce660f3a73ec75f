"""When jobs that wait will start, in words for their reasons: forecast at most once a minute, in the thread of plans.

It costs what a plan costs, many times over, and has a budget: where one plan is slow, there are no words; `edl plan
--ahead` has them. A status is rewritten for other words of a job at most once a minute, and for 20 jobs in a cycle.
"""

from collections.abc import Container, Mapping

from edl.scheduler.memory import Memory
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.forecast import MOST_PLANS, forecast
from edl.scheduler.snapshot.models import Measured, ModelCache, with_models
from edl.scheduler.snapshot.types import Snapshot

EVERY = 60.0
RETELLS = EVERY + 1.0  # a status takes other words once a minute
AT_ONCE = 20
BUDGET = 1.0  # seconds of all plans of a forecast
LEAST_PLANS = 3
RUNS = 3


class StartForecasts:
    def __init__(self) -> None:
        self._made: float | None = None
        self._words: dict[str, str] = {}
        self._announced: dict[str, float] = {}
        self._announcements = 0
        self._models = ModelCache()

    def is_due(self, now: float) -> bool:
        return self._made is None or not 0 <= now - self._made < EVERY

    def make(
        self,
        taken: Snapshot,
        measured: Mapping[str, Measured],
        memory: Memory,
        *,
        now: float,
        settings: Settings,
        plan_seconds: float,
    ) -> None:
        """In any thread. `plan_seconds`: what one plan takes."""
        self._made = now
        plans = min(MOST_PLANS, int(BUDGET / RUNS / max(plan_seconds, 1e-4)))
        if plans < LEAST_PLANS:
            self._words = {}
            return
        taken = with_models(taken, self._models, measured)
        found = forecast(taken, memory, now=now, settings=settings, plans=plans)
        self._words = {key: one.words for key, one in found.items()}

    def words(self, uid: str) -> str:
        return self._words.get(uid, "")

    def keep(self, waiting: Container[str]) -> None:
        """Forgets jobs that no longer wait; begins a new cycle."""
        self._words = {uid: words for uid, words in self._words.items() if uid in waiting}
        self._announced = {uid: at for uid, at in self._announced.items() if uid in waiting}
        self._announcements = 0

    def should_retell(self, uid: str, shown: str, now: float) -> bool:
        """Whether the job's status, which says this, should be written anew."""
        words = self._words.get(uid)
        if not words or shown.endswith(words) or now - self._announced.get(uid, -RETELLS) < RETELLS:
            return False
        if self._announcements >= AT_ONCE:
            return False
        self._announced[uid] = now
        self._announcements += 1
        return True
