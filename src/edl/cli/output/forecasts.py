"""Shows what lies ahead of a cluster: when jobs that wait will start, and what will happen to the others."""

import json
from typing import TYPE_CHECKING

from edl.cli.output.tables import table

if TYPE_CHECKING:
    from edl.scheduler.settings import Settings
    from edl.scheduler.simulation.forecast import StartForecast
    from edl.scheduler.simulation.forward import Happening
    from edl.scheduler.snapshot.types import JobFacts, Snapshot

PLANS = 2000  # of a run; people wait for this one


def show_ahead(taken: "Snapshot", *, now: float, settings: "Settings", ahead: float, as_json: bool) -> str:
    from edl.scheduler.memory import Memory
    from edl.scheduler.simulation.forecast import forecast, timeline
    from edl.scheduler.simulation.forward import Future

    memory = Memory()
    starts = forecast(taken, memory, now=now, settings=settings, ahead=ahead, plans=PLANS)
    jobs = {facts.key: facts for facts in taken.jobs}
    happenings = list(Future(taken, memory, now=now, settings=settings).run(now + ahead, PLANS))
    if as_json:
        by_path = sorted(starts.items(), key=lambda pair: jobs[pair[0]].path)
        waiting = [_start_data(jobs[key], one) for key, one in by_path]
        changes = [_change_data(jobs[one.key], one, now) for one in happenings]
        return json.dumps({"waiting": waiting, "timeline": changes})
    parts = []
    if starts:
        rows = [(jobs[key].path, one.words) for key, one in sorted(starts.items(), key=lambda pair: _order(pair[1]))]
        parts.append(table(("WAITING", "WHEN"), rows))
    coming = [(f"in {when}", path, what) for when, path, what in timeline(happenings, jobs, now)]
    parts.append(table(("TIME", "JOB", "WHAT"), coming) if coming else "nothing will change, as far as anybody can say")
    return "\n\n".join(parts)


def _start_data(facts: "JobFacts", one: "StartForecast") -> dict[str, object]:
    return {
        "namespace": facts.namespace,
        "name": facts.name,
        "starts_in": one.starts,
        "earliest": one.earliest if one.starts is not None else None,
        "latest": one.latest,
        "behind": one.behind,
        "words": one.words,
    }


def _change_data(facts: "JobFacts", one: "Happening", now: float) -> dict[str, object]:
    return {
        "in": round(one.time - now, 1),
        "namespace": facts.namespace,
        "name": facts.name,
        "from": one.before,
        "to": one.after,
        "ends": one.ended,
    }


def _order(one: "StartForecast") -> tuple[bool, float, str]:
    return one.starts is None, one.starts or 0.0, one.key
