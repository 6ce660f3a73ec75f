"""The result of one rule: a plan, or no plan and the reason. Every rule returns a Proposal and nothing else."""

import msgspec

from edl.protocol.job_facts import ResourcePlan


class Proposal(msgspec.Struct, frozen=True):
    """`final`: no later rule is asked. An empty reason means that the rule does not apply."""

    plan: ResourcePlan | None = None
    reason: str = ""
    final: bool = False


NOT_APPLICABLE = Proposal()


def propose(plan: ResourcePlan) -> Proposal:
    return Proposal(plan, plan.reason, final=True)


def keep(reason: str) -> Proposal:
    """This rule changes nothing; a later one may. The first such reason is the decision's if none does."""
    return Proposal(reason=reason)


def hold(reason: str) -> Proposal:
    """Nothing is to change, whatever later rules would say."""
    return Proposal(reason=reason, final=True)
