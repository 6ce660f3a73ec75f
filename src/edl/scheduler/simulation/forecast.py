"""Says when jobs that wait will start: runs the cluster forward three times, with jobs as fast as they say, faster,
slower.

What it says is a guess with a range, or that nobody can say and why not: as long as those who hold what a job needs do
not tell how much they have left, there is no time to name. It is good as long as nobody else arrives.
"""

from collections.abc import Mapping, Sequence

import msgspec

from edl.scheduler.memory import Memory
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.forward import Future, Happening
from edl.scheduler.snapshot.types import JobFacts, Snapshot

FASTER, SLOWER = 0.6, 1.7
"""Shares of the time that a model says: nine of ten jobs of replayed traces start within."""
MOST_PLANS = 150  # of one run
MOST_TRIED = 50  # jobs of which it is found out whether they could start at all
AHEAD = 24 * 3600.0


class StartForecast(msgspec.Struct, frozen=True):
    """Seconds from now. `starts` is None if nobody can say; `why` says why not. `latest` is None if it may never be."""

    key: str
    starts: float | None = None
    earliest: float = 0.0
    latest: float | None = None
    behind: int = 0
    """Jobs that wait and start before it."""
    why: str = ""

    @property
    def words(self) -> str:
        if self.starts is None:
            return f"nobody can say when it starts: {self.why}"
        queue = f", behind {self.behind} job{'s' * (self.behind != 1)}" if self.behind else ""
        if self.starts < 30 and not self.behind:
            return "starts in a moment"
        late = f"{_amount(self.latest, self.starts)}" if self.latest is not None else "?"
        return f"starts in about {_time(self.starts)} ({_amount(self.earliest, self.starts)}-{late}){queue}"


def forecast(
    taken: Snapshot, memory: Memory, *, now: float, settings: Settings, ahead: float = AHEAD, plans: int = MOST_PLANS
) -> dict[str, StartForecast]:
    """Of jobs that wait, by key; of one that no end of others would help there is nothing to say."""
    waiting = {facts.key: facts for facts in taken.jobs if is_waiting(facts)}
    if not waiting:
        return {}
    runs = [
        _starts(taken, memory, now=now, settings=settings, slower=slower, until=now + ahead, plans=plans)
        for slower in (1.0, FASTER, SLOWER)
    ]
    expected, early, late = runs
    order = sorted((time, key) for key, time in expected.items() if key in waiting)
    behind = {key: sum(1 for time, _ in order if time < expected[key]) for _, key in order}
    found = {
        key: StartForecast(
            key,
            starts=expected[key],
            earliest=min(early.get(key, expected[key]), expected[key]),
            latest=max(late[key], expected[key]) if key in late else None,
            behind=behind[key],
        )
        for _, key in order
    }
    why = _why_not([facts for facts in taken.jobs if facts.key in expected or any(facts.live)], ahead)
    unknown = [facts for key, facts in waiting.items() if key not in found]
    able = unknown[:MOST_TRIED] if why else []
    return found | {
        facts.key: StartForecast(facts.key, why=why) for facts in able if _fits_alone(taken, facts, now, settings)
    }


def _fits_alone(taken: Snapshot, facts: JobFacts, now: float, settings: Settings) -> bool:
    """Whether it would start if no other job were there. Of one that would not, its reason says all there is to say."""
    future = Future(taken, Memory(), now=now, settings=settings)
    future.keep_only(facts.key)
    return any(one.after for one in future.run(now, 1))


def is_waiting(facts: JobFacts) -> bool:
    return facts.state == "active" and not any(facts.live) and not facts.pause and facts.min > 0


def _starts(
    taken: Snapshot, memory: Memory, *, now: float, settings: Settings, slower: float, until: float, plans: int
) -> dict[str, float]:
    """Seconds from now at which each job first has instances."""
    found: dict[str, float] = {}
    for happening in Future(taken, memory, now=now, settings=settings, slower=slower).run(until, plans):
        if happening.after and not happening.before:
            found.setdefault(happening.key, happening.time - now)
    return found


def _why_not(holding: Sequence[JobFacts], ahead: float) -> str:
    """`holding`: jobs that run, or will before it."""
    silent = [facts for facts in holding if facts.model is None or facts.model.remaining is None]
    if not silent:
        return f"not within {_time(ahead)}" if holding else ""
    others = f" and {len(silent) - 1} other job{'s' * (len(silent) > 2)} do" if len(silent) > 1 else " does"
    return f"{silent[0].path}{others} not tell how much is left to do"


def timeline(happenings: Sequence[Happening], jobs: Mapping[str, JobFacts], now: float) -> list[tuple[str, str, str]]:
    """Time from now, job and what happens to it, in words."""
    return [(_time(one.time - now), jobs[one.key].path, _what(one)) for one in happenings if one.key in jobs]


def _what(happening: Happening) -> str:
    if happening.ended:
        return "ends"
    if not happening.before:
        return f"starts with {happening.after}"
    return f"{'grows' if happening.after > happening.before else 'shrinks'} to {happening.after}"


def _time(seconds: float) -> str:
    """Coarse, so that it does not change every second: 40 s, 12 min, 2.5 h, 3 days."""
    if seconds < 55:
        return f"{max(10, round(seconds / 10) * 10)} s"
    unit, name = _unit(seconds)
    return f"{_coarse(seconds / unit)} {name}"


def _amount(seconds: float, beside: float) -> str:
    """In the unit of another time."""
    unit, _ = _unit(beside)
    return _coarse(seconds / unit)


def _unit(seconds: float) -> tuple[float, str]:
    if seconds < 55:
        return 1.0, "s"
    if seconds < 5400:
        return 60.0, "min"
    return (3600.0, "h") if seconds < 48 * 3600 else (86400.0, "days")


def _coarse(number: float) -> str:
    if number < 10:
        return f"{round(number, 1 if number < 3 else 0):g}"
    return f"{round(number / 5) * 5 if number > 20 else round(number)}"
