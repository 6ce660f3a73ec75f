"""The scheduling policies by name. To add one, write its file beside `cfs` and add a row below.

Command lines and the Helm chart take their choices from here, so policies import nothing heavy.
"""

from edl.scheduler.policies.cfs import Cfs
from edl.scheduler.policies.fulfillment import Fulfillment
from edl.scheduler.policies.goodput import Goodput
from edl.scheduler.policies.policy import Policy

DEFAULT_POLICY = "cfs"
_ROWS: tuple[Policy, ...] = (
    Cfs(),
    Fulfillment(),
    Goodput(),
)
POLICIES = {policy.name: policy for policy in _ROWS}


def policy_named(name: str) -> Policy:
    """ValueError names the policies there are."""
    policy = POLICIES.get(name)
    if policy is None:
        raise ValueError(f"there is no scheduling policy {name!r}; known ones: {', '.join(POLICIES)}")
    return policy
