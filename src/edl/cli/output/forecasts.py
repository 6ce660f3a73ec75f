"""Shows what lies ahead of a cluster: when jobs that wait will start, and what will happen to the others."""

import json
from typing import TYPE_CHECKING

from edl.cli.output.tables import table

if TYPE_CHECKING:
    from edl.scheduler.settings import Settings
    from edl.scheduler.simulation.forecast import StartForecast
    from edl.scheduler.snapshot.types import Snapshot

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
        found = {
            "waiting": [
                {
                    "namespace": jobs[key].namespace,
                    "name": jobs[key].name,
                    "starts_in": one.starts,
                    "earliest": one.earliest if one.starts is not None else None,
                    "latest": one.latest,
                    "behind": one.behind,
                    "words": one.words,
                }
                for key, one in sorted(starts.items(), key=lambda pair: jobs[pair[0]].path)
            ],
            "timeline": [
                {
                    "in": round(one.time - now, 1),
                    "namespace": jobs[one.key].namespace,
                    "name": jobs[one.key].name,
                    "from": one.before,
                    "to": one.after,
                    "ends": one.ended,
                }
                for one in happenings
            ],
        }
        return json.dumps(found)
    parts = []
    if starts:
        rows = [(jobs[key].path, one.words) for key, one in sorted(starts.items(), key=lambda pair: _order(pair[1]))]
        parts.append(table(("WAITING", "WHEN"), rows))
    coming = [(f"in {when}", path, what) for when, path, what in timeline(happenings, jobs, now)]
    parts.append(table(("TIME", "JOB", "WHAT"), coming) if coming else "nothing will change, as far as anybody can say")
    return "\n\n".join(parts)


def _order(one: "StartForecast") -> tuple[bool, float, str]:
    return one.starts is None, one.starts or 0.0, one.key
