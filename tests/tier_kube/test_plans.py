"""Our plans meet the real kube-scheduler: it binds what was planned, or the plan is taken back in time."""

from pathlib import Path

import pytest

from tests.tier_kube.cluster.kubectl import Kubectl
from tests.tier_kube.cluster.kwok import kwok
from tests.tier_kube.plans import planning

pytestmark = [pytest.mark.kube, pytest.mark.timeout(200)]
ROUNDS, JOBS = 2, 20
WITHIN = 30.0


async def test_plans_bind_or_are_withdrawn(own_api: Kubectl, tmp_path: Path) -> None:
    with kwok(own_api.kubeconfig, tmp_path, lease_seconds=12):
        async with planning(own_api.kubeconfig, 3, nodes=20) as plans:
            for number in range(ROUNDS):
                await plans.round(number, JOBS)
    tally = plans.tally
    assert tally.jobs == ROUNDS * JOBS
    assert tally.slowest < WITHIN, "no pod waited longer for a node"
    assert tally.fates["bound"] > ROUNDS * JOBS / 4, tally
    assert tally.fates["withdrawn"] + tally.fates["bound in part"] > 0, "nothing was withdrawn: nothing was tried"
