"""The running plan: rules in order of urgency, and the first that has something to say is the plan.

Safety first (memory), then the past (what did not pay), then speed: parameter servers before workers, because workers
that wait for a full server tell nothing about workers.
"""

import msgspec

from . import judge as judging
from .facts import JobFacts, Plan
from .judge import Judgement
from .memory import after_oom, headroom
from .servers import servers, trim
from .settings import DEFAULTS, Settings
from .workers import workers


class Verdict(msgspec.Struct, frozen=True):
    """`plan` None: nothing is to change, and `reason` says why. `judgement` is about the last plan."""

    plan: Plan | None
    reason: str
    judgement: Judgement | None = None


def decide(facts: JobFacts, now: float, settings: Settings = DEFAULTS) -> Verdict:
    judgement = judging.judge(facts, settings)
    facts = judging.apply(facts, judgement)
    found = _first(facts, now, settings)
    if isinstance(found, str):
        return Verdict(None, found, judgement)
    if (found.roles, found.slots) == (facts.present, facts.slots):
        return Verdict(None, f"{found.reason} (as it is)", judgement)
    if found.rule == "take-back" and judgement is not None:
        judgement = msgspec.structs.replace(judgement, verdict="taken back")
    return Verdict(found, found.reason, judgement)


def _first(facts: JobFacts, now: float, settings: Settings) -> Plan | str:
    if (killed := after_oom(facts, settings)) is not None:
        return killed
    urgent = headroom(facts, settings) or judging.take_back(facts, settings)
    if urgent is not None:
        return urgent
    if judging.undecided(facts, settings):
        return f"what was measured since plan {facts.plans[-1].number} does not tell yet whether it pays"
    if (served := servers(facts, now, settings)) is not None:
        return served
    count = workers(facts, now, settings)
    if isinstance(count, Plan):
        return count
    return trim(facts, now, settings) or count
