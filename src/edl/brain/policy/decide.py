"""Makes the running plan of a job: asks the rules in order of urgency and takes the first final proposal.

Safety first (memory), then the past (plans that did not pay), then speed: parameter servers before workers, because
workers that wait for a saturated server say nothing about workers.
"""

from collections.abc import Callable

import msgspec

from edl.brain.policy.evaluation import await_evaluation, evaluate, revert, with_evaluation
from edl.brain.policy.memory import after_oom, headroom
from edl.brain.policy.proposal import Proposal
from edl.brain.policy.rules import TAKE_BACK
from edl.brain.policy.servers import relieve_servers, trim_servers
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.workers import scale_workers
from edl.protocol.job_facts import JobFacts, PlanEvaluation, ResourcePlan

Rule = Callable[[JobFacts, float, Settings], Proposal]

RULES: tuple[Rule, ...] = (
    after_oom,
    headroom,
    revert,
    await_evaluation,
    relieve_servers,
    scale_workers,
    trim_servers,
)


class Decision(msgspec.Struct, frozen=True):
    """`plan` None: nothing is to change, and `reason` says why. `evaluation` is about the last plan."""

    plan: ResourcePlan | None
    reason: str
    evaluation: PlanEvaluation | None = None


def decide(facts: JobFacts, now: float, settings: Settings = DEFAULTS) -> Decision:
    evaluation = evaluate(facts, settings)
    facts = with_evaluation(facts, evaluation)
    proposal = _first_proposal(facts, now, settings)
    plan = proposal.plan
    if plan is None:
        return Decision(None, proposal.reason, evaluation)
    if (plan.roles, plan.slots) == (facts.present, facts.slots):
        return Decision(None, f"{plan.reason} (as it is)", evaluation)
    if plan.rule == TAKE_BACK and evaluation is not None:
        evaluation = msgspec.structs.replace(evaluation, verdict="taken back")
    return Decision(plan, plan.reason, evaluation)


def _first_proposal(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    reason = ""
    for rule in RULES:
        proposal = rule(facts, now, settings)
        if proposal.final:
            return proposal
        reason = reason or proposal.reason
    return Proposal(reason=reason)
