"""A thousand random plans against the real kube-scheduler: each binds, or is withdrawn, and how soon."""

import itertools
import logging
import sys
import tempfile
from pathlib import Path

from bench.kube.stage import FLAGS
from tests.tier_kube.cluster.cluster import Cluster, provide
from tests.tier_kube.cluster.kwok import kwok
from tests.tier_kube.plans import Tally, planning

NODES, JOBS_AT_ONCE = 120, 100


async def try_plans(count: int, seed: int) -> Tally:
    logging.getLogger("edl").setLevel(logging.ERROR)  # what it says about jobs that a round takes away is no result
    provide(nodes=False)
    cluster = Cluster(f"bench-plans-{seed}", nodes=0, more_flags=FLAGS)
    cluster.start()
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            kwok(cluster.kubeconfig, Path(directory), lease_seconds=40),
        ):
            async with planning(cluster.kubeconfig, seed, nodes=NODES) as plans:
                for number in itertools.count():
                    await plans.round(number, JOBS_AT_ONCE)
                    print(f"  {plans.tally.made} of {count} plans", file=sys.stderr, flush=True)
                    if plans.tally.made >= count:
                        break
        return plans.tally
    finally:
        cluster.stop()
